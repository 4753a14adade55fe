// The members of a JSON object, one after the other.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

class Members {
  public:
    explicit Members(JsonbContainer *object) : members_(JsonbIteratorInit(object)) {
        JsonbIteratorNext(&members_, &value, true);
    }
    bool next() {
        if (JsonbIteratorNext(&members_, &name, true) != WJB_KEY)
            return false;
        JsonbIteratorNext(&members_, &value, true);
        return true;
    }
    JsonbValue name;
    JsonbValue value;

  private:
    JsonbIterator *members_;
};

// REQUIRES: a string.
inline std::string_view text_of(const JsonbValue &value) {
    return {value.val.string.val, static_cast<size_t>(value.val.string.len)};
}

} // namespace idem
