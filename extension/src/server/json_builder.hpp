// Building jsonb: an object or an array, from its first token to its last.
#pragma once

#include "server/compat.hpp"

#include <string_view>

namespace idem {

// A string; the text stays where it is.
inline JsonbValue string_value(std::string_view text) {
    JsonbValue value;
    value.type = jbvString;
    value.val.string.val = const_cast<char *>(text.data());
    value.val.string.len = static_cast<int>(text.size());
    return value;
}

// A whole document, as a part of another one.
inline JsonbValue document_value(const Jsonb *document) {
    JsonbValue value;
    auto *root = const_cast<JsonbContainer *>(&document->root);
    if (!JsonbExtractScalar(root, &value)) {
        value.type = jbvBinary;
        value.val.binary.data = root;
        value.val.binary.len = static_cast<int>(VARSIZE(document) - VARHDRSZ);
    }
    return value;
}

class JsonBuilder {
  public:
    // A builder of one object.
    static JsonBuilder object() {
        JsonBuilder builder;
        builder.begin_object();
        return builder;
    }

    void begin_object() { pushJsonbValue(&state_, WJB_BEGIN_OBJECT, nullptr); }
    void end_object() { pushJsonbValue(&state_, WJB_END_OBJECT, nullptr); }
    void begin_array() { pushJsonbValue(&state_, WJB_BEGIN_ARRAY, nullptr); }
    void end_array() { pushJsonbValue(&state_, WJB_END_ARRAY, nullptr); }

    // A member of the object.
    void add_member(JsonbValue name, JsonbValue value) {
        pushJsonbValue(&state_, WJB_KEY, &name);
        pushJsonbValue(&state_, WJB_VALUE, &value);
    }
    void add_member(std::string_view name, const JsonbValue &value) { add_member(string_value(name), value); }
    void add_member(std::string_view name, std::string_view text) { add_member(name, string_value(text)); }

    // An element of the array.
    void add_element(JsonbValue value) { pushJsonbValue(&state_, WJB_ELEM, &value); }

    // After the last end: what was built, as a part of another document, or as a document.
    const JsonbValue &value() const { return *state_.result; }
    Jsonb *document() const { return JsonbValueToJsonb(state_.result); }

    Jsonb *finish_object() {
        end_object();
        return document();
    }

  private:
    JsonbInState state_{};
};

} // namespace idem
