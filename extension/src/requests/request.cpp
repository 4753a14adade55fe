// Signed requests: idem_verify_request and idem_request_message.
#include "keys/claim.hpp"
#include "keys/composite_key.hpp"
#include "requests/api_key.hpp"
#include "requests/request_message.hpp"
#include "requests/request_outcome.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/hmac.hpp"

namespace {

using namespace idem;
using core::Micros;

struct VerifyArgument {
    enum { params, signature, key_id, signed_at, nonce, tolerance, scope };
};

Jsonb *object_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("params");
    Jsonb *given = PG_GETARG_JSONB_P(arg);
    if (!JB_ROOT_IS_OBJECT(given))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("params must be a JSON object")));
    return given;
}

Micros time_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("signed_at");
    return PG_GETARG_TIMESTAMPTZ(arg);
}

// Whether one of the key id's secrets signed the request. An unknown key id takes as long as a known one.
bool is_genuine(const SignedRequest &request, const core::Mac &given, Micros now) {
    StringInfoData message;
    if (request_message(request, &message) != MessageFault::none)
        return false;
    const Bytes covered{message.data, static_cast<Size>(message.len)};
    const auto is_signed_by = [&](const Secret &secret) { return core::same_mac(hmac(secret.key(), covered, {"", 0}), given); };
    bool is_known = false;
    bool genuine = false;
    for (const StoredSecret &row : secrets_of(api_key_store, request.key_id))
        if (verifies(row, now)) {
            genuine |= is_signed_by(row.secret);
            is_known = true;
        }
    if (!is_known)
        (void)is_signed_by(Secret{kSecretBytes, {}});
    return genuine;
}

[[noreturn]] void raise_no_message(MessageFault fault) {
    if (fault == MessageFault::no_text)
        ereport(ERROR, (errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE), errmsg("the request has text without a form in UTF-8")));
    ereport(ERROR,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
             fault == MessageFault::too_deep ? errmsg("the request is nested too deep") : errmsg("the request is too large"),
             fault == MessageFault::too_deep
                 ? errdetail("Objects and arrays must not be nested more than %d deep.", kMaxParamsDepth)
                 : errdetail("What is signed must not have more than %d bytes.", kMaxMessageBytes)));
    pg_unreachable();
}

bool is_fresh(const SignedRequest &request, Micros now, Micros allowed) {
    return request.signed_at >= now - allowed && request.signed_at <= now + allowed;
}

// A request can be accepted until its time of signing plus the tolerance. That is at most twice the tolerance from now, and the
// nonce is retained for longer. A call that has waited for another claim of the nonce may find that claim expired, but then the
// request is stale.
RequestOutcome claim_nonce(const SignedRequest &signed_request, const text *name, const text *scope, const ScopePolicy &policy,
                           Micros allowed) {
    ClaimRequest request{};
    request.function = "idem_verify_request()";
    request.key = name;
    request.scope = scope;
    request.least_ttl = 2 * allowed + USECS_PER_SEC;
    request.ttl = policy.keep_forever ? core::kForever : request.least_ttl;
    request.waits_for_commit = true;
    const Claimed claimed = claim_key(request);
    raise_if_held(claimed, request.key);
    if (!is_granted(claimed.outcome))
        return RequestOutcome::replayed;
    return is_fresh(signed_request, clock_now(), allowed) ? RequestOutcome::accepted : RequestOutcome::stale;
}

RequestOutcome verify(const SignedRequest &request, const text *hex, const text *scope, Micros allowed) {
    const ScopePolicy policy = scope_policy(scope);
    core::Mac mac;
    if (!core::read_hex_mac({VARDATA_ANY(hex), VARSIZE_ANY_EXHDR(hex)}, &mac) || !can_be_signed(request.signed_at) ||
        VARSIZE_ANY_EXHDR(request.nonce) == 0)
        return RequestOutcome::invalid;
    const Micros now = clock_now();
    if (!is_genuine(request, mac, now))
        return RequestOutcome::invalid;
    const text *name = composite_key(request.key_id, request.nonce);
    if (VARSIZE_ANY_EXHDR(name) > kMaxKeyBytes)
        return RequestOutcome::invalid;
    if (!is_fresh(request, now, allowed))
        return RequestOutcome::stale;
    return claim_nonce(request, name, scope, policy, allowed);
}

} // namespace

SQL_FUNCTION(idem_verify_request) {
    SignedRequest request;
    request.params = object_argument(fcinfo, VerifyArgument::params);
    const text *hex = required_text(fcinfo, VerifyArgument::signature, "signature");
    request.key_id = required_text(fcinfo, VerifyArgument::key_id, "key_id");
    request.signed_at = time_argument(fcinfo, VerifyArgument::signed_at);
    request.nonce = required_text(fcinfo, VerifyArgument::nonce, "nonce");
    const Micros allowed = tolerance_argument(fcinfo, VerifyArgument::tolerance);
    const text *scope =
        PG_ARGISNULL(VerifyArgument::scope) ? cstring_to_text("nonce") : scope_argument(fcinfo, VerifyArgument::scope);
    const RequestOutcome outcome = verify(request, hex, scope, allowed);
    require_function(fcinfo);
    PG_RETURN_DATUM(enum_value(request_outcome_enum, static_cast<int>(outcome)));
}

SQL_FUNCTION(idem_request_message) {
    SignedRequest request;
    request.params = object_argument(fcinfo, 0);
    request.key_id = required_text(fcinfo, 1, "key_id");
    request.signed_at = time_argument(fcinfo, 2);
    request.nonce = required_text(fcinfo, 3, "nonce");
    if (!can_be_signed(request.signed_at))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("signed_at is out of range")));
    StringInfoData message;
    const MessageFault fault = request_message(request, &message);
    if (fault != MessageFault::none)
        raise_no_message(fault);
    PG_RETURN_TEXT_P(cstring_to_text(pg_any_to_server(message.data, message.len, PG_UTF8)));
}
