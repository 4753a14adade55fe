// idem_http_complete: the response to a request, stored with its key.
#include "core/http_key.hpp"
#include "http/http_response.hpp"
#include "keys/holder.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { idempotency_key, status, headers, body, fence, scope };
};

const text *held_key(FunctionCallInfo fcinfo) {
    const text *field = PG_GETARG_TEXT_PP(Argument::idempotency_key);
    core::HttpKey key;
    if (!core::parse_http_key({VARDATA_ANY(field), VARSIZE_ANY_EXHDR(field)}, &key))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("idempotency key is malformed"),
                        errhint("Give the header field for which idem_http_begin said to run.")));
    return cstring_to_text_with_len(key.bytes, static_cast<int>(key.size));
}

const Jsonb *optional_json(FunctionCallInfo fcinfo, int arg) { return PG_ARGISNULL(arg) ? nullptr : PG_GETARG_JSONB_P(arg); }

} // namespace

SQL_FUNCTION(idem_http_complete) {
    HolderCall call{};
    call.function = "idem_http_complete()";
    call.change = core::Change::complete;
    call.scope = required_scope_argument(fcinfo, Argument::scope);
    call.policy = scope_policy(call.scope);
    if (PG_ARGISNULL(Argument::idempotency_key)) // the method needs no key
        PG_RETURN_VOID();
    if (PG_ARGISNULL(Argument::status))
        raise_null_argument("status");
    call.response.has_status_code = true;
    call.response.status_code = PG_GETARG_INT32(Argument::status);
    if (call.response.status_code < 100 || call.response.status_code > 599)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("status must be from 100 to 599")));
    const char *fields = http_policy(call.scope).stored_fields;
    const Jsonb *given_headers = optional_json(fcinfo, Argument::headers);
    call.response.body = stored_response(given_headers, optional_json(fcinfo, Argument::body), fields);
    call.key = held_key(fcinfo);
    call.has_fence = !PG_ARGISNULL(Argument::fence);
    if (call.has_fence)
        call.fence = PG_GETARG_INT64(Argument::fence);
    if (!PG_ARGISNULL(Argument::body) && response_size(call.response.body) > call.policy.max_response_size)
        call.response.fallback = stored_response(given_headers, nullptr, fields);
    change_as_holder(call);
    PG_RETURN_VOID();
}
