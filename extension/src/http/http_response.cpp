#include "http/http_response.hpp"

#include "core/http_message.hpp"
#include "server/compat.hpp"
#include "server/json_builder.hpp"
#include "server/json_members.hpp"
#include "server/utf8.hpp"

namespace idem {

namespace {

constexpr std::string_view kHeaders = "headers", kText = "text", kUtf8 = "utf8", kBase64 = "base64";

[[noreturn]] void raise_malformed(const char *detail) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers are malformed"), errdetail("%s", detail),
                    errhint("Give names and values, such as '{\"Location\": \"/orders/7\"}'.")));
    pg_unreachable();
}

const char *printable(std::string_view name) { return pnstrdup(name.data(), name.size()); }

// The fault of a field's value as the end of a sentence, or nullptr.
const char *fault_of_text(const JsonbValue &value) {
    if (value.type == jbvNumeric)
        return nullptr;
    if (value.type != jbvString)
        return "is neither a string nor a number, nor an array of them";
    return core::is_http_field_value(text_of(value)) ? nullptr : "has a line break in it";
}

// Visits the values of a field, without nulls, until `visit` returns false.
template <typename Visit> void for_each_value(const JsonbValue &field, Visit visit) {
    if (field.type != jbvBinary || !JsonContainerIsArray(field.val.binary.data)) {
        if (field.type != jbvNull)
            visit(field);
        return;
    }
    JsonbIterator *elements = JsonbIteratorInit(field.val.binary.data);
    JsonbValue element;
    bool goes_on = true;
    for (auto token = JsonbIteratorNext(&elements, &element, true); token != WJB_DONE && goes_on;
         token = JsonbIteratorNext(&elements, &element, true))
        if (token == WJB_ELEM && element.type != jbvNull)
            goes_on = visit(element);
}

const char *fault_of_field(const JsonbValue &field) {
    const char *fault = nullptr;
    for_each_value(field, [&fault](const JsonbValue &value) { return (fault = fault_of_text(value)) == nullptr; });
    return fault;
}

// The names of header fields, in lower case. They are compared as HTTP does: without case.
class FieldNames {
  public:
    // A field that is null is none.
    void add(const Members &field) {
        if (field.value.type != jbvNull)
            names_ = lappend(names_, asc_tolower(text_of(field.name).data(), text_of(field.name).size()));
    }
    // A name that was added in two spellings, or nullptr.
    const char *repeated() {
        list_sort(names_, [](const ListCell *left, const ListCell *right) {
            return strcmp(static_cast<const char *>(lfirst(left)), static_cast<const char *>(lfirst(right)));
        });
        for (int i = 1; i < list_length(names_); i++)
            if (strcmp(at(i - 1), at(i)) == 0)
                return at(i);
        return nullptr;
    }

  private:
    const char *at(int i) const { return static_cast<const char *>(list_nth(names_, i)); }
    List *names_ = NIL;
};

bool is_stored(std::string_view name, const char *fields) {
    return (core::names_http_field(fields, name) || core::names_http_field(core::kAlwaysStoredFields, name)) &&
           !core::names_http_field(core::kNeverStoredFields, name);
}

// A header field's value as a string: numbers as they are written.
JsonbValue field_text(const JsonbValue &value) {
    if (value.type == jbvString)
        return value;
    return string_value(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric))));
}

void add_field(JsonBuilder *stored, std::string_view name, const JsonbValue &field) {
    if (field.type != jbvBinary) {
        for_each_value(field, [&](const JsonbValue &value) {
            stored->add_member(name, field_text(value));
            return false;
        });
        return;
    }
    JsonBuilder values;
    values.begin_array();
    for_each_value(field, [&](const JsonbValue &value) {
        values.add_element(field_text(value));
        return true;
    });
    values.end_array();
    stored->add_member(name, values.value());
}

Jsonb *stored_headers(const Jsonb *headers, const char *fields) {
    JsonBuilder stored = JsonBuilder::object();
    if (headers != nullptr) {
        if (!JB_ROOT_IS_OBJECT(headers))
            raise_malformed("They are not a JSON object.");
        Members field(const_cast<JsonbContainer *>(&headers->root));
        FieldNames names;
        while (field.next()) {
            const std::string_view name = text_of(field.name);
            if (!is_stored(name, fields))
                continue;
            if (const char *fault = fault_of_field(field.value))
                raise_malformed(psprintf("The value of \"%s\" %s.", printable(name), fault));
            names.add(field);
            add_field(&stored, name, field.value);
        }
        if (const char *name = names.repeated())
            raise_malformed(psprintf("The field \"%s\" is given in two spellings.", name));
    }
    return stored.finish_object();
}

// Text in jsonb has the server's encoding, so bytes of UTF-8 can be stored as text only where that is the same. jsonb has no
// U+0000.
bool are_text(std::string_view bytes) {
    return GetDatabaseEncoding() == PG_UTF8 && bytes.find('\0') == bytes.npos &&
           pg_verify_mbstr(PG_UTF8, bytes.data(), static_cast<int>(bytes.size()), true);
}

std::string_view base64_of(std::string_view bytes) {
    const int capacity = pg_b64_enc_len(static_cast<int>(bytes.size()));
    auto *encoded = static_cast<char *>(palloc(capacity + 1));
    const int size =
        compat_b64_encode(reinterpret_cast<const uint8 *>(bytes.data()), static_cast<int>(bytes.size()), encoded, capacity);
    if (size < 0)
        elog(ERROR, "could not encode a body of %zu bytes", bytes.size());
    return {encoded, static_cast<size_t>(size)};
}

void add_body(JsonBuilder *response, const HttpBody &body) {
    if (body.as_text != nullptr) {
        response->add_member(kText, std::string_view(VARDATA_ANY(body.as_text), VARSIZE_ANY_EXHDR(body.as_text)));
    } else if (body.as_bytes != nullptr) {
        const std::string_view bytes = bytes_of(body);
        if (are_text(bytes))
            response->add_member(kUtf8, bytes);
        else
            response->add_member(kBase64, base64_of(bytes));
    }
}

JsonbValue *member(JsonbContainer *object, std::string_view name, JsonbValue *value) {
    return getKeyJsonValueFromContainer(object, name.data(), static_cast<int>(name.size()), value);
}

// Whether idem_http_complete could have stored the object as headers.
bool are_headers(JsonbContainer *object) {
    Members field(object);
    FieldNames names;
    while (field.next()) {
        if (!core::is_http_token(text_of(field.name)) || fault_of_field(field.value) != nullptr ||
            core::names_http_field(core::kNeverStoredFields, text_of(field.name)))
            return false;
        names.add(field);
    }
    return names.repeated() == nullptr;
}

// nullptr when the text is not base64.
bytea *decoded(std::string_view base64) {
    const int capacity = pg_b64_dec_len(static_cast<int>(base64.size()));
    auto *value = static_cast<bytea *>(palloc(VARHDRSZ + capacity));
    const int size =
        compat_b64_decode(base64.data(), static_cast<int>(base64.size()), reinterpret_cast<uint8 *>(VARDATA(value)), capacity);
    if (size < 0)
        return nullptr;
    SET_VARSIZE(value, VARHDRSZ + size);
    return value;
}

// Finds the body in a stored document. Returns false when there is none that idem_http_complete could have stored.
bool find_body(JsonbContainer *document, HttpBody *body) {
    JsonbValue value;
    if (member(document, kText, &value) != nullptr && value.type == jbvString)
        body->as_text = cstring_to_text_with_len(value.val.string.val, value.val.string.len);
    else if (member(document, kUtf8, &value) != nullptr && value.type == jbvString && GetDatabaseEncoding() == PG_UTF8)
        body->as_bytes = bytea_of(text_of(value));
    else if (member(document, kBase64, &value) != nullptr && value.type == jbvString)
        body->as_bytes = decoded(text_of(value));
    return !body->is_absent();
}

// Finds the parts of a document that idem_http_complete stored. Returns false for any other document.
bool find_parts(Jsonb *stored, JsonbContainer **headers, HttpBody *body) {
    if (!JB_ROOT_IS_OBJECT(stored))
        return false;
    JsonbValue value;
    if (member(&stored->root, kHeaders, &value) == nullptr || value.type != jbvBinary ||
        !JsonContainerIsObject(value.val.binary.data) || !are_headers(value.val.binary.data))
        return false;
    *headers = value.val.binary.data;
    return JB_ROOT_COUNT(stored) == 1 || (JB_ROOT_COUNT(stored) == 2 && find_body(&stored->root, body));
}

} // namespace

bytea *bytea_of(std::string_view bytes) {
    auto *value = static_cast<bytea *>(palloc(VARHDRSZ + bytes.size()));
    SET_VARSIZE(value, VARHDRSZ + bytes.size());
    memcpy(VARDATA(value), bytes.data(), bytes.size());
    return value;
}

Jsonb *stored_response(const Jsonb *headers, const HttpBody &body, const char *fields) {
    JsonBuilder response = JsonBuilder::object();
    response.add_member(kHeaders, document_value(stored_headers(headers, fields)));
    add_body(&response, body);
    return response.finish_object();
}

ReplayedResponse replayed_response(Jsonb *stored, bool is_omitted, const char *echoed_key) {
    ReplayedResponse replay{};
    JsonBuilder headers = JsonBuilder::object();
    JsonbContainer *fields = nullptr;
    if (stored != nullptr && find_parts(stored, &fields, &replay.body)) {
        Members field(fields);
        while (field.next())
            if (!is_omitted || !core::names_http_field(core::kAlwaysStoredFields, text_of(field.name)))
                headers.add_member(field.name, field.value);
    } else if (stored != nullptr) {
        replay.body = {cstring_to_text(JsonbToCString(nullptr, &stored->root, VARSIZE(stored))), nullptr};
        headers.add_member("Content-Type", "application/json");
    }
    headers.add_member(core::kReplayedField, "true");
    if (is_omitted)
        headers.add_member(core::kOmittedField, "true");
    if (echoed_key != nullptr)
        headers.add_member(core::kKeyField, echoed_key);
    replay.headers = headers.finish_object();
    return replay;
}

} // namespace idem
