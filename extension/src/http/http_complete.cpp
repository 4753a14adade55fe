// idem_http_complete: the response to a request, stored with its key.
#include "core/http_message.hpp"
#include "http/http_answer.hpp"
#include "http/http_arguments.hpp"
#include "http/http_response.hpp"
#include "keys/holder.hpp"
#include "server/arguments.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { scope, idempotency_key, status, headers, body, body_bytes, fence, omit };
};

const text *held_key(FunctionCallInfo fcinfo, const HttpPolicy &policy) {
    const text *key = http_key_in(PG_GETARG_TEXT_PP(Argument::idempotency_key), policy.key_syntax);
    if (key == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("idempotency key is malformed"),
                        errhint("Give the header field for which idem_http_begin said to run.")));
    return key;
}

Datum answer(FunctionCallInfo fcinfo, HttpStored stored) {
    require_function(fcinfo);
    return enum_value(http_stored_enum, static_cast<int>(stored));
}

int32 status_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::status))
        raise_null_argument("status");
    const int32 status = PG_GETARG_INT32(Argument::status);
    if (!core::is_final_http_status(status))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("status must be from 200 to 599")));
    return status;
}

// The caller sends a body that is not given here, such as a stream.
bool omits_body(FunctionCallInfo fcinfo, const HttpBody &body) {
    const bool omits = !PG_ARGISNULL(Argument::omit) && PG_GETARG_BOOL(Argument::omit);
    if (omits && !body.is_absent())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a body that is omitted cannot be given"),
                        errhint("Give the body, or omit => true.")));
    return omits;
}

// A retry has to run again. A commit would keep what this attempt wrote, so only a leased key can be released here.
void release_as_holder(HolderCall *call, int32 status) {
    if (!call->has_fence)
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_STATE),
                        errmsg("a response with status %d is not stored in scope \"%s\"", status, text_to_cstring(call->scope)),
                        errdetail("A commit would keep the rows of this request, and its retry would run again."),
                        errhint("Roll back, then send the response.")));
    call->change = core::Change::release;
    change_as_holder(*call);
}

} // namespace

SQL_FUNCTION(idem_http_complete) {
    HolderCall call{};
    call.function = "idem_http_complete()";
    call.change = core::Change::complete;
    call.scope = http_scope_argument(fcinfo, Argument::scope);
    call.policy = scope_policy(call.scope);
    if (PG_ARGISNULL(Argument::idempotency_key)) // the request has none
        return answer(fcinfo, HttpStored::unkeyed);
    const HttpPolicy policy = http_policy(call.scope);
    const int32 status = status_argument(fcinfo);
    call.key = held_key(fcinfo, policy);
    call.has_fence = !PG_ARGISNULL(Argument::fence);
    if (call.has_fence)
        call.fence = PG_GETARG_INT64(Argument::fence);
    const Jsonb *headers = PG_ARGISNULL(Argument::headers) ? nullptr : PG_GETARG_JSONB_P(Argument::headers);
    const HttpBody body = http_body_argument(fcinfo, Argument::body);
    if (core::matches_http_status(policy.unstored_statuses, status)) {
        release_as_holder(&call, status);
        return answer(fcinfo, HttpStored::released);
    }
    call.response.has_status_code = true;
    call.response.status_code = status;
    if (!omits_body(fcinfo, body))
        call.response.body = stored_response(headers, body, policy.stored_fields);
    if (call.response.body == nullptr || (!body.is_absent() && !is_stored(call.response, call.policy)))
        call.response.fallback = stored_response(headers, HttpBody{}, policy.stored_fields);
    change_as_holder(call);
    return answer(fcinfo, is_stored(call.response, call.policy) ? HttpStored::stored : HttpStored::omitted);
}
