// One-time tokens: issued without writing anything, redeemed as a transactional claim.
#include "core/token.hpp"

#include "keys/claim.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/hmac.hpp"
#include "server/random.hpp"
#include "storage/key_store.hpp"
#include "tokens/token_outcome.hpp"
#include "tokens/token_secret.hpp"

namespace {

using namespace idem;
using core::Micros;
using core::Outcome;
using core::Token;
using core::TokenOutcome;

// The row of a redeemed token is retained for this long after the token's expiry. Otherwise a clock that is set back could make
// a token valid again whose row was swept.
constexpr Micros kRetentionAfterExpiry = USECS_PER_DAY;

// The MAC's input up to the bytes of the subject.
struct MacInput {
    uint8 bytes[core::kSignedBytes + 4 + kMaxScopeBytes + 4];
    Size size;

    void add(const void *data, Size count) {
        memcpy(bytes + size, data, count);
        size += count;
    }
};

MacInput mac_input(const Token &token, const text *scope, const text *subject) {
    const auto head = core::signed_part(token);
    const auto scope_length = core::length_prefix(VARSIZE_ANY_EXHDR(scope));
    const auto subject_length = core::length_prefix(VARSIZE_ANY_EXHDR(subject));
    MacInput input;
    input.size = 0;
    input.add(head.data(), head.size());
    input.add(scope_length.data(), scope_length.size());
    input.add(VARDATA_ANY(scope), VARSIZE_ANY_EXHDR(scope));
    input.add(subject_length.data(), subject_length.size());
    return input;
}

// REQUIRES: a scope that scope_argument accepted.
core::Mac mac_of(const Token &token, const Secret &secret, const text *scope, const text *subject) {
    const MacInput input = mac_input(token, scope, subject);
    return hmac(secret.key(), {input.bytes, input.size}, {VARDATA_ANY(subject), VARSIZE_ANY_EXHDR(subject)});
}

constexpr Micros kDefaultTtl = 30 * core::Micros{USECS_PER_MINUTE};

Micros ttl_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return kDefaultTtl;
    const Micros ttl = positive_span_of(PG_GETARG_INTERVAL_P(arg), "ttl");
    if (ttl > kMaxTokenTtl)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("ttl must not be longer than 7 days")));
    return ttl;
}

const text *subject_argument(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? cstring_to_text("") : PG_GETARG_TEXT_PP(arg);
}

text *issue(const text *scope, const text *subject, Micros ttl) {
    const TokenSecret signing = signing_secret("idem_token_issue()");
    Token token;
    token.key_id = signing.key_id;
    token.expires_at = deadline_after(clock_now(), ttl, "ttl");
    fill_random(token.nonce.data(), token.nonce.size());
    token.mac = mac_of(token, signing.secret, scope, subject);
    const auto encoded = core::encode_token(token);
    return cstring_to_text_with_len(encoded.data(), encoded.size());
}

// Whether this database issued the token for this scope and subject, and has not revoked it.
bool is_genuine(const Token &token, const text *scope, const text *subject) {
    TokenSecret known;
    for (int n = 0; find_secret(token.key_id, n, &known); n++)
        if (core::same_mac(mac_of(token, known.secret, scope, subject), token.mac))
            return token.expires_at <= known.max_expiry;
    return false;
}

TokenOutcome outcome_of(Outcome claimed) {
    switch (claimed) {
    case Outcome::acquired:
        return TokenOutcome::accepted;
    case Outcome::completed:
        return TokenOutcome::duplicate;
    case Outcome::in_flight:
        return TokenOutcome::in_flight;
    default:
        elog(ERROR, "unexpected outcome %d of a token's claim", static_cast<int>(claimed));
    }
    pg_unreachable();
}

// Claims the token's name in transactional mode: the claim is completed when it commits. A call that has waited for another
// claim of the token, which was rolled back, may hold a token that is over: it then gives the claim back.
TokenOutcome claim_token(const Token &token, const text *scope, Micros now) {
    const auto name = core::redemption_name(token);
    ClaimRequest request{};
    request.function = "idem_token_redeem()";
    request.space = KeySpace::tokens;
    request.scope = scope;
    request.key = cstring_to_text_with_len(name.data(), name.size());
    request.ttl = token.expires_at - now + kRetentionAfterExpiry;
    const KeyTable table = open_keys(Access::write, request.space, request.scope);
    Claimed claimed = claim_key(table, request);
    const bool is_over = is_granted(claimed.outcome) && token.expires_at <= claimed.at;
    if (!is_over)
        count_outcome(request, claimed.outcome);
    else if (delete_key(table, &claimed.version) != Write::done)
        elog(ERROR, "claim of a token was changed by another transaction");
    close_keys(table);
    return is_over ? TokenOutcome::expired : outcome_of(claimed.outcome);
}

TokenOutcome redeem(const text *encoded, const text *scope, const text *subject) {
    const auto token = core::decode_token({VARDATA_ANY(encoded), VARSIZE_ANY_EXHDR(encoded)});
    if (!token || !is_genuine(*token, scope, subject))
        return TokenOutcome::invalid;
    const Micros now = clock_now();
    if (token->expires_at <= now)
        return TokenOutcome::expired;
    return claim_token(*token, scope, now);
}

} // namespace

SQL_FUNCTION(idem_token_issue) {
    const text *subject = subject_argument(fcinfo, 0);
    const Micros ttl = ttl_argument(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 2);
    (void)scope_policy(scope); // raises unless the caller may use the scope
    PG_RETURN_TEXT_P(issue(scope, subject, ttl));
}

SQL_FUNCTION(idem_token_redeem) {
    const text *token = required_text(fcinfo, 0, "token");
    const text *subject = subject_argument(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 2);
    (void)scope_policy(scope);
    const TokenOutcome outcome = redeem(token, scope, subject);
    require_function(fcinfo);
    PG_RETURN_DATUM(enum_value(token_outcome_enum, static_cast<int>(outcome)));
}

SQL_FUNCTION(idem_token_rotate_secret) {
    rotate_secret(!PG_ARGISNULL(0) && PG_GETARG_BOOL(0), "idem_token_rotate_secret()");
    PG_RETURN_VOID();
}
