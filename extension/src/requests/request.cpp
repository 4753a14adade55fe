// Signed requests: idem_verify_request, idem_request_message, and the keys that requests are signed with.
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

constexpr int kMinSecretBytes = 16;
constexpr int kMaxSecretBytes = 1024;

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

const text *id_argument(FunctionCallInfo fcinfo, int arg) {
    const text *id = required_text(fcinfo, arg, "key_id");
    const Size bytes = VARSIZE_ANY_EXHDR(id);
    if (bytes == 0 || bytes > kMaxKeyIdBytes)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("key_id must have from 1 to %d bytes", kMaxKeyIdBytes)));
    return id;
}

const bytea *secret_argument(FunctionCallInfo fcinfo, int arg) {
    const bytea *secret = required_text(fcinfo, arg, "secret");
    const Size bytes = VARSIZE_ANY_EXHDR(secret);
    if (bytes < kMinSecretBytes || bytes > kMaxSecretBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("secret must have from %d to %d bytes", kMinSecretBytes, kMaxSecretBytes),
                        errhint("Make one of 32 random bytes.")));
    return secret;
}

constexpr Micros kDefaultTolerance = 5 * Micros{USECS_PER_MINUTE};

Micros tolerance_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return kDefaultTolerance;
    const Micros tolerance = positive_span_of(PG_GETARG_INTERVAL_P(arg), "tolerance");
    if (tolerance > 7 * USECS_PER_DAY)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("tolerance must not be longer than 7 days")));
    return tolerance;
}

Micros keep_old_argument(FunctionCallInfo fcinfo, int arg) {
    const Micros keep_old = PG_ARGISNULL(arg) ? 0 : span_of(PG_GETARG_INTERVAL_P(arg), "keep_old");
    if (keep_old < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("keep_old must not be negative")));
    return keep_old;
}

// Whether one of the key id's secrets signed the request. An unknown key id takes as long as a known one.
bool is_genuine(const SignedRequest &request, const core::Mac &given, Micros now) {
    StringInfoData message;
    if (request_message(request, &message) != MessageFault::none)
        return false;
    const Bytes covered{message.data, static_cast<Size>(message.len)};
    const auto is_signed_by = [&](const Secret &secret) { return core::same_mac(hmac(secret.key(), covered, {"", 0}), given); };
    Secret secret{kSecretBytes, {}};
    if (!find_api_secret(request.key_id, 0, now, &secret)) {
        (void)is_signed_by(secret);
        return false;
    }
    bool genuine = is_signed_by(secret);
    for (int n = 1; find_api_secret(request.key_id, n, now, &secret); n++)
        genuine |= is_signed_by(secret);
    explicit_bzero(&secret, sizeof secret);
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
    request.ttl = policy.keep_forever ? core::kForever : 2 * allowed + USECS_PER_SEC;
    request.waits_for_commit = true;
    const Claimed claimed = claim_key(request);
    raise_if_held(claimed, request.key);
    if (!is_granted(claimed.outcome))
        return RequestOutcome::replayed;
    return is_fresh(signed_request, claimed.at, allowed) ? RequestOutcome::accepted : RequestOutcome::stale;
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
    PG_RETURN_DATUM(enum_value(request_outcome_enum, static_cast<int>(verify(request, hex, scope, allowed))));
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

SQL_FUNCTION(idem_api_key_set) {
    const text *id = id_argument(fcinfo, 0);
    const bytea *secret = secret_argument(fcinfo, 1);
    const Micros keep_old = keep_old_argument(fcinfo, 2);
    const Micros now = clock_now();
    set_api_secret(id, secret, now, keep_old == 0 ? now : deadline_after(now, keep_old, "keep_old"), "idem_api_key_set()");
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_api_key_drop) { PG_RETURN_BOOL(drop_api_key(id_argument(fcinfo, 0), "idem_api_key_drop()")); }
