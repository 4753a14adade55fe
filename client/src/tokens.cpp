#include <idem/tokens.hpp>

#include "outcome.hpp"

namespace idem {

namespace {

using detail::statement;

constexpr detail::words<5> kOutcomes{"accepted", "duplicate", "in_flight", "expired", "invalid"};

constexpr statement issue_statement{
    "idem_token_issue", "SELECT @idem@.idem_token_issue($1::pg_catalog.text, $2::pg_catalog.interval, $3::pg_catalog.text)",
    true};
constexpr statement redeem_statement{
    "idem_token_redeem", "SELECT @idem@.idem_token_redeem($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text)"};

} // namespace

const char *name(token_outcome outcome) noexcept { return detail::word_of(kOutcomes, outcome); }

namespace detail {

// Errors name the subject: the token itself is a credential.
command redeem_step(const std::string &token, const std::string &subject, const std::string &scope) {
    return {&redeem_statement, {token, subject, scope}, {subject, scope}};
}

token_outcome redeemed(const rows &answer) { return outcome_of<token_outcome>(kOutcomes, answer.at(0).at(0)); }

} // namespace detail

std::string issue_token(const target &at, const std::string &subject, duration ttl, const std::string &scope) {
    return detail::call(at, {&issue_statement, {subject, detail::interval_text(ttl), scope}, {subject, scope}})
        .at(0)
        .at(0)
        .value();
}

token_outcome redeem_token(const target &at, const std::string &token, const std::string &subject, const std::string &scope) {
    return detail::redeemed(detail::call(at, detail::redeem_step(token, subject, scope)));
}

} // namespace idem
