// One-time tokens: issued without writing anything, redeemed as a transactional claim.
#include "core/token.hpp"

#include "keys/claim.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/hmac.hpp"
#include "server/random.hpp"
#include "tokens/token_outcome.hpp"
#include "tokens/token_secret.hpp"

namespace {

using namespace idem;
using core::Micros;
using core::Outcome;
using core::Token;
using core::TokenOutcome;

// The row of a redeemed token is kept for this much longer than the token, so that a clock that is set back does not make a
// token valid again whose row was swept.
constexpr Micros kRowOutlivesToken = USECS_PER_DAY;

// What the MAC covers before the bytes of the subject, in one piece.
struct Covered {
    uint8 bytes[core::kSignedBytes + 4 + kMaxScopeBytes + 4];
    Size size;

    void add(const void *data, Size count) {
        memcpy(bytes + size, data, count);
        size += count;
    }
};

Covered cover(const Token &token, const text *scope, const text *subject) {
    const auto head = core::signed_part(token);
    const auto scope_length = core::length_prefix(VARSIZE_ANY_EXHDR(scope));
    const auto subject_length = core::length_prefix(VARSIZE_ANY_EXHDR(subject));
    Covered covered;
    covered.size = 0;
    covered.add(head.data(), head.size());
    covered.add(scope_length.data(), scope_length.size());
    covered.add(VARDATA_ANY(scope), VARSIZE_ANY_EXHDR(scope));
    covered.add(subject_length.data(), subject_length.size());
    return covered;
}

// REQUIRES: a scope that scope_argument accepted.
core::Mac mac_of(const Token &token, const Secret &secret, const text *scope, const text *subject) {
    const Covered covered = cover(token, scope, subject);
    return hmac(secret.key(), {covered.bytes, covered.size}, {VARDATA_ANY(subject), VARSIZE_ANY_EXHDR(subject)});
}

Micros life_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("ttl");
    const Micros life = positive_span_of(PG_GETARG_INTERVAL_P(arg), "ttl");
    if (life > kLongestTokenLife)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("ttl must not be longer than 7 days")));
    return life;
}

text *issue(const text *scope, const text *subject, Micros life) {
    const TokenSecret signing = signing_secret("idem_token_issue()");
    Token token;
    token.key_id = signing.key_id;
    token.expires_at = deadline_after(clock_now(), life, "ttl");
    fill_random(token.nonce.data(), token.nonce.size());
    token.mac = mac_of(token, signing.secret, scope, subject);
    const auto characters = core::encode_token(token);
    return cstring_to_text_with_len(characters.data(), characters.size());
}

// Whether this database issued the token for this scope and subject, and has not revoked it.
bool is_genuine(const Token &token, const text *scope, const text *subject) {
    TokenSecret known;
    for (int n = 0; find_secret(token.key_id, n, &known); n++)
        if (core::same_mac(mac_of(token, known.secret, scope, subject), token.mac))
            return token.expires_at <= known.signs_no_later;
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

// The claim of a token's name is completed when it commits, as that of a key in transactional mode.
TokenOutcome claim_token(const Token &token, const text *scope, Micros now) {
    const auto name = core::redemption_name(token);
    ClaimRequest request{};
    request.function = "idem_token_redeem()";
    request.space = KeySpace::tokens;
    request.scope = scope;
    request.key = cstring_to_text_with_len(name.data(), name.size());
    request.ttl = token.expires_at - now + kRowOutlivesToken;
    return outcome_of(claim_key(request).outcome);
}

TokenOutcome redeem(const text *characters, const text *scope, const text *subject) {
    const auto token = core::decode_token({VARDATA_ANY(characters), VARSIZE_ANY_EXHDR(characters)});
    if (!token || !is_genuine(*token, scope, subject))
        return TokenOutcome::invalid;
    const Micros now = clock_now();
    if (token->expires_at <= now)
        return TokenOutcome::expired;
    return claim_token(*token, scope, now);
}

} // namespace

SQL_FUNCTION(idem_token_issue) {
    const text *subject = required_text(fcinfo, 0, "subject");
    const Micros life = life_argument(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 2);
    (void)scope_policy(scope); // raises unless the caller may use it
    PG_RETURN_TEXT_P(issue(scope, subject, life));
}

SQL_FUNCTION(idem_token_redeem) {
    const text *token = required_text(fcinfo, 0, "token");
    const text *subject = required_text(fcinfo, 1, "subject");
    const text *scope = scope_argument(fcinfo, 2);
    (void)scope_policy(scope);
    const TokenOutcome outcome = redeem(token, scope, subject);
    PG_RETURN_DATUM(enum_value(token_outcome_enum, static_cast<int>(outcome)));
}

SQL_FUNCTION(idem_token_rotate_secret) {
    if (PG_ARGISNULL(0))
        raise_null_argument("revoke");
    rotate_secret(PG_GETARG_BOOL(0), "idem_token_rotate_secret()");
    PG_RETURN_VOID();
}
