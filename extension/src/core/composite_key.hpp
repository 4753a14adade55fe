// A composite key: parts joined by ':', with '\' before each ':' and '\' inside a part. Joining is injective: two lists of
// parts give the same key only if they are the same list.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

class CompositeKey {
  public:
    void append(std::string_view part);
    std::string take() && { return std::move(joined_); }

  private:
    std::string joined_;
    bool first_ = true;
};

} // namespace idem::core
