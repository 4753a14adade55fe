#include "key_statements.hpp"

namespace idem::detail {

namespace {

// The columns of a ticket but its lease, and the fingerprint that a request's $2 to $4 stand for.
#define TICKET                                                                                                                 \
    "SELECT outcome::pg_catalog.text, fence, attempt, status_code, response::pg_catalog.text, response_omitted, "              \
    "recovery_point, pg_catalog.ceil(1000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM retry_after))::pg_catalog.int8, "
#define FINGERPRINT                                                                                                            \
    "CASE WHEN $2::pg_catalog.text IS NOT NULL THEN $2::pg_catalog.bytea "                                                     \
    "WHEN $3::pg_catalog.text IS NOT NULL THEN @idem@.idem_fingerprint($3::pg_catalog.jsonb) "                                 \
    "WHEN $4::pg_catalog.text IS NOT NULL THEN @idem@.idem_fingerprint_text($4) END"

constexpr statement begin_statement{
    "idem_begin",
    TICKET "pg_catalog.floor(1000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM lease_until OPERATOR(pg_catalog.-) "
           "pg_catalog.clock_timestamp()))::pg_catalog.int8 "
           "FROM @idem@.idem_begin($1, " FINGERPRINT
           ", $5::pg_catalog.interval, $6::pg_catalog.interval, $7, $8::pg_catalog.interval, $9)",
    true}; // under the owner's nonce

// Under the key, so that running it again after a lost answer finds the first run.
constexpr statement execute_statement{
    "idem_execute",
    TICKET "NULL FROM @idem@.idem_execute($1, $6, $7::pg_catalog.text[], " FINGERPRINT ", $5::pg_catalog.interval, $8)", true};

#undef TICKET
#undef FINGERPRINT

// The response comes back as jsonb writes it, so that the first answer and every replay are the same text.
constexpr statement complete_statement{
    "idem_complete",
    "SELECT $2::pg_catalog.jsonb::pg_catalog.text, "
    "@idem@.idem_complete($1, $2::pg_catalog.jsonb, $3::pg_catalog.int4, $4::pg_catalog.int8, $5)",
    true}; // equal response, same fence: a no-op

constexpr statement claim_many_statement{
    "idem_claim_many",
    "SELECT k FROM @idem@.idem_claim_many($1::pg_catalog.text[], $2::pg_catalog.interval, $3::pg_catalog.text) k"};

parameter fingerprint_of(const request &about) {
    if (!about.fingerprint())
        return std::nullopt;
    return "\\x" + *about.fingerprint();
}

} // namespace

command begin_command(const request &about, const parameter &lease, const std::string &owner, const patience &wait) {
    return {&begin_statement,
            {about.key(), fingerprint_of(about), about.json(), about.text(), interval_text(about.ttl()), lease, owner,
             interval_text(wait.bound), about.scope()},
            {about.key(), about.scope()}};
}

command execute_command(const request &about, const std::string &statement, const parameters &arguments) {
    return {&execute_statement,
            {about.key(), fingerprint_of(about), about.json(), about.text(), interval_text(about.ttl()), statement,
             array_text(arguments), about.scope()},
            {about.key(), about.scope()}};
}

command complete_command(const request &about, const response &outcome, const parameter &fence) {
    parameter status;
    if (outcome.status_code)
        status = std::to_string(*outcome.status_code);
    return {&complete_statement, {about.key(), outcome.json, status, fence, about.scope()}, {about.key(), about.scope()}};
}

command claim_many_command(const std::vector<parameter> &keys, const std::optional<duration> &ttl, const std::string &scope) {
    return {&claim_many_statement, {array_text(keys), interval_text(ttl), scope}, {{}, scope}};
}

answer answer_of(const row &ticket, bool replayed) {
    answer known;
    known.json = ticket[response_json];
    if (ticket[status_code])
        known.status_code = static_cast<int>(to_integer(ticket[status_code]));
    known.replayed = replayed;
    known.omitted = ticket[response_omitted] == "t";
    if (ticket[attempt])
        known.attempt = static_cast<int>(to_integer(ticket[attempt]));
    return known;
}

void refuse(const row &ticket, const request &about) {
    const std::string &what = *ticket[outcome];
    const subject of{about.key(), about.scope()};
    const std::string quoted = "key \"" + about.key() + "\"";
    if (what == "mismatch")
        throw mismatch("ID002", quoted + " was used before with another request", of);
    if (what == "in_flight")
        throw in_flight("ID005", quoted + " is in flight: its holder is not done", of,
                        duration(ticket[retry_after_ms] ? to_integer(ticket[retry_after_ms]) : 0));
    if (what == "in_doubt")
        throw in_doubt("ID005", quoted + " is in doubt: its holder vanished, and an operator decides", of);
    throw error("XX000", "unknown outcome \"" + what + "\" of idem_begin", of);
}

void throw_unless_it_tells(const error &last, const subject &about) {
    // Trouble on the way to the key, as a standby that lags, a full disk or a missing privilege have it, says nothing of it.
    for (const char *open : {"08", "25", "3F000", "40001", "40P01", "42501", "42883", "53", "55P03", "57", "58", "ID005", "XX"})
        if (last.sqlstate().compare(0, std::char_traits<char>::length(open), open) == 0 &&
            !dynamic_cast<const in_doubt *>(&last))
            throw outcome_unknown("08007",
                                  std::string("the connection was lost during commit, and how it ended could not be found "
                                              "out: ") +
                                      last.what(),
                                  about);
}

} // namespace idem::detail
