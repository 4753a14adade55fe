#include "http/http_arguments.hpp"

#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/utf8.hpp"

namespace idem {

const text *http_scope_argument(FunctionCallInfo fcinfo, int arg) {
    const text *scope = required_scope_argument(fcinfo, arg);
    if (VARSIZE_ANY_EXHDR(scope) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("scope must not be empty"),
                        errhint("Name the client and the API, such as 'shop:17': clients choose their keys, and those of two "
                                "clients must not meet.")));
    return scope;
}

HttpBody http_body_argument(FunctionCallInfo fcinfo, int arg) {
    if (!PG_ARGISNULL(arg) && !PG_ARGISNULL(arg + 1))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("body and body_bytes cannot be given together"),
                        errhint("Give the body as text or as bytes, and NULL for the other.")));
    return {optional_text(fcinfo, arg), PG_ARGISNULL(arg + 1) ? nullptr : PG_GETARG_BYTEA_PP(arg + 1)};
}

const text *http_key_in(const text *field, core::HttpKeySyntax syntax) {
    core::HttpKey key;
    if (!core::parse_http_key({VARDATA_ANY(field), VARSIZE_ANY_EXHDR(field)}, syntax, &key))
        return nullptr;
    return cstring_to_text_with_len(key.bytes, static_cast<int>(key.size));
}

std::string_view bytes_of(const HttpBody &body) {
    if (body.as_text != nullptr)
        return as_utf8(body.as_text);
    if (body.as_bytes != nullptr)
        return {VARDATA_ANY(body.as_bytes), VARSIZE_ANY_EXHDR(body.as_bytes)};
    return {};
}

} // namespace idem
