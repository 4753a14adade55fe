#include "http/http_response.hpp"

#include "core/http_message.hpp"

#include <string_view>

namespace idem {

namespace {

constexpr std::string_view kHeaders = "headers", kBody = "body";

std::string_view text_of(const JsonbValue &value) { return {value.val.string.val, static_cast<size_t>(value.val.string.len)}; }

JsonbValue string_value(std::string_view text) {
    JsonbValue value;
    value.type = jbvString;
    value.val.string.val = const_cast<char *>(text.data());
    value.val.string.len = static_cast<int>(text.size());
    return value;
}

// Builds a JSON object.
class Object {
  public:
    Object() { pushJsonbValue(&state_, WJB_BEGIN_OBJECT, nullptr); }
    void add(std::string_view name, std::string_view text) {
        JsonbValue value = string_value(text);
        add(name, &value);
    }
    void add(std::string_view name, JsonbValue *value) {
        JsonbValue key = string_value(name);
        pushJsonbValue(&state_, WJB_KEY, &key);
        pushJsonbValue(&state_, WJB_VALUE, value);
    }
    void add(std::string_view name, const Jsonb *document) {
        JsonbValue value;
        auto *root = const_cast<JsonbContainer *>(&document->root);
        if (!JsonbExtractScalar(root, &value)) {
            value.type = jbvBinary;
            value.val.binary.data = root;
            value.val.binary.len = static_cast<int>(VARSIZE(document) - VARHDRSZ);
        }
        add(name, &value);
    }
    Jsonb *finish() { return JsonbValueToJsonb(pushJsonbValue(&state_, WJB_END_OBJECT, nullptr)); }

  private:
    JsonbParseState *state_ = nullptr;
};

// Visits the members of a JSON object.
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

[[noreturn]] void raise_malformed(const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers are malformed"), errdetail("%s", detail),
                    errhint("Give names and values, such as '{\"Location\": \"/orders/7\"}'.")));
    pg_unreachable();
}

// The fault of a field's value as a sentence, or nullptr.
const char *fault_of_text(const JsonbValue &value) {
    if (value.type != jbvString)
        return "The value of a field is a string or an array of strings.";
    return core::is_http_field_value(text_of(value)) ? nullptr : "A value has a line break in it.";
}

const char *fault_of_field(const Members &field) {
    if (!core::is_http_token(text_of(field.name)))
        return "A name has a character that no field name has.";
    if (field.value.type != jbvBinary || !JsonContainerIsArray(field.value.val.binary.data))
        return fault_of_text(field.value);
    JsonbIterator *elements = JsonbIteratorInit(field.value.val.binary.data);
    JsonbValue element;
    const char *fault = nullptr;
    for (auto token = JsonbIteratorNext(&elements, &element, true); token != WJB_DONE && fault == nullptr;
         token = JsonbIteratorNext(&elements, &element, true))
        if (token == WJB_ELEM)
            fault = fault_of_text(element);
    return fault;
}

bool is_stored(std::string_view name, const char *fields) {
    return core::names_http_field(fields, name) && !core::names_http_field(core::kNeverStoredFields, name);
}

Jsonb *stored_headers(const Jsonb *headers, const char *fields) {
    Object stored;
    if (headers != nullptr) {
        if (!JB_ROOT_IS_OBJECT(headers))
            raise_malformed("They are not a JSON object.");
        Members field(const_cast<JsonbContainer *>(&headers->root));
        while (field.next()) {
            if (const char *fault = fault_of_field(field))
                raise_malformed(fault);
            if (is_stored(text_of(field.name), fields))
                stored.add(text_of(field.name), &field.value);
        }
    }
    return stored.finish();
}

JsonbValue *member(JsonbContainer *object, std::string_view name, JsonbValue *value) {
    return getKeyJsonValueFromContainer(object, name.data(), static_cast<int>(name.size()), value);
}

// Whether idem_http_complete could have stored the object as headers.
bool are_headers(JsonbContainer *object) {
    Members field(object);
    while (field.next())
        if (fault_of_field(field) != nullptr || core::names_http_field(core::kNeverStoredFields, text_of(field.name)))
            return false;
    return true;
}

// The headers in a document that idem_http_complete stored; nullptr for any other document.
JsonbContainer *headers_of(Jsonb *stored, JsonbValue *body, bool *has_body) {
    if (!JB_ROOT_IS_OBJECT(stored))
        return nullptr;
    JsonbValue headers;
    *has_body = member(&stored->root, kBody, body) != nullptr;
    const bool found = member(&stored->root, kHeaders, &headers) != nullptr && headers.type == jbvBinary &&
                       JsonContainerIsObject(headers.val.binary.data) && JB_ROOT_COUNT(stored) == (*has_body ? 2 : 1) &&
                       are_headers(headers.val.binary.data);
    return found ? headers.val.binary.data : nullptr;
}

} // namespace

Jsonb *stored_response(const Jsonb *headers, const Jsonb *body, const char *fields) {
    Object response;
    response.add(kHeaders, stored_headers(headers, fields));
    if (body != nullptr)
        response.add(kBody, body);
    return response.finish();
}

ReplayedResponse replayed_response(Jsonb *stored) {
    ReplayedResponse replay{nullptr, stored};
    Object headers;
    if (stored != nullptr) {
        JsonbValue body;
        bool has_body;
        JsonbContainer *fields = headers_of(stored, &body, &has_body);
        if (fields != nullptr) {
            replay.body = has_body ? JsonbValueToJsonb(&body) : nullptr;
            Members field(fields);
            while (field.next())
                headers.add(text_of(field.name), &field.value);
        }
    }
    headers.add(core::kReplayedField, "true");
    replay.headers = headers.finish();
    return replay;
}

Jsonb *problem_headers(const HttpProblem &problem) {
    Object headers;
    headers.add("Content-Type", "application/problem+json");
    if (problem.retry_after > 0)
        headers.add("Retry-After", psprintf(INT64_FORMAT, problem.retry_after));
    return headers.finish();
}

Jsonb *problem_body(const HttpProblem &problem) {
    Object body;
    body.add("type", "about:blank");
    body.add("title", core::http_reason(problem.status));
    JsonbValue status;
    status.type = jbvNumeric;
    status.val.numeric = int64_to_numeric(problem.status);
    body.add("status", &status);
    body.add("detail", problem.detail);
    body.add("code", problem.code);
    return body.finish();
}

} // namespace idem
