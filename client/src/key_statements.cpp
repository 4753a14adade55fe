#include "key_statements.hpp"

#include "stored_text.hpp"

namespace idem::detail {

namespace {

// The columns of a ticket except its lease; and the fingerprint of a request, from $2 to $4.
#define TICKET                                                                                                                 \
    "SELECT outcome::pg_catalog.text, fence, attempt, status_code, response::pg_catalog.text, response_omitted, "              \
    "steps::pg_catalog.text, retry_after_ms, "
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
    true}; // the owner finds its own claim again

// Repeatable: after a lost answer the key finds the first run.
constexpr statement execute_statement{
    "idem_execute",
    TICKET "NULL FROM @idem@.idem_execute($1, $6, pg_catalog.to_jsonb($7::pg_catalog.text[]), " FINGERPRINT
           ", $5::pg_catalog.interval, $8)",
    true};

#undef TICKET
#undef FINGERPRINT

// The response is returned in jsonb's spelling, so that the first answer and all replays are the same text.
constexpr statement complete_statement{
    "idem_complete",
    "SELECT $2::pg_catalog.jsonb::pg_catalog.text, "
    "@idem@.idem_complete($1, $2::pg_catalog.jsonb, $3::pg_catalog.int4, $4::pg_catalog.int8, $5), "
    "$6::pg_catalog.jsonb IS NULL",
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

command begin_command(const request &about, const parameter &lease, const std::string &owner, const wait_limit &wait) {
    return {&begin_statement,
            {about.key(), fingerprint_of(about), about.json(), about.text(), interval_text(about.ttl()), lease, owner,
             wait_text(wait), about.scope()},
            {about.key(), about.scope()}};
}

command execute_command(const request &about, const std::string &statement, const parameters &args) {
    return {&execute_statement,
            {about.key(), fingerprint_of(about), about.json(), about.text(), interval_text(about.ttl()), statement,
             array_text(args), about.scope()},
            {about.key(), about.scope()}};
}

command complete_command(const request &about, const response &outcome, const parameter &fence) {
    parameter status;
    if (outcome.status_code)
        status = std::to_string(*outcome.status_code);
    const stored_text result(outcome.json);
    return {&complete_statement,
            {about.key(), result.text, status, fence, about.scope(), result.check},
            {about.key(), about.scope()}};
}

command claim_many_command(const std::vector<parameter> &keys, const std::optional<duration> &ttl, const std::string &scope) {
    return {&claim_many_statement, {array_text(keys), interval_text(ttl), scope}, {{}, scope}};
}

ticket ticket_of(const rows &answer) {
    const auto integer = [](const parameter &value) { return value ? std::optional(to_integer(value)) : std::nullopt; };
    const auto small = [](const parameter &value) {
        return value ? std::optional(static_cast<int>(to_integer(value))) : std::nullopt;
    };
    const auto milliseconds = [](const parameter &value) {
        return value ? std::optional(duration(to_integer(value))) : std::nullopt;
    };
    const record &columns = answer.at(0);
    return {outcome_of<key_outcome>(kKeyOutcomes, columns.at(0)),
            integer(columns.at(1)),
            small(columns.at(2)).value_or(1),
            small(columns.at(3)),
            result_of(columns.at(4)),
            columns.at(5) == "t",
            results_of(columns.at(6)),
            milliseconds(columns.at(7)),
            milliseconds(columns.at(8))};
}

answer answer_of(const ticket &from, bool replayed) {
    answer known;
    known.response = from.response;
    known.status_code = from.status_code;
    known.replayed = replayed;
    known.response_omitted = from.response_omitted;
    known.attempt = from.attempt;
    return known;
}

void throw_rejection(key_outcome outcome, const std::optional<duration> &retry_after, const request &about) {
    const subject of{about.key(), about.scope()};
    const std::string quoted = "key \"" + about.key() + "\"";
    switch (outcome) {
    case key_outcome::mismatch:
        throw mismatch("ID002", quoted + " was used before with another request", of);
    case key_outcome::in_flight:
        throw in_flight("ID005", quoted + " is in flight: its holder is not done", of, retry_after);
    case key_outcome::in_doubt:
        throw in_doubt("ID005", quoted + " is in doubt: its holder vanished, and an operator decides", of);
    default:
        throw error("XX000", quoted + " was answered with an outcome that the call cannot have", of);
    }
}

void throw_if_inconclusive(const error &last, const subject &about) {
    // Errors that do not depend on the key's state: a standby that lags, a full disk, a missing privilege.
    for (const char *prefix :
         {"08", "25", "3F000", "40001", "40P01", "42501", "42883", "53", "55P03", "57", "58", "ID005", "XX"})
        if (last.sqlstate().compare(0, std::char_traits<char>::length(prefix), prefix) == 0 &&
            !dynamic_cast<const in_doubt *>(&last))
            throw outcome_unknown("08007",
                                  std::string("the connection was lost during commit, and the outcome could not be "
                                              "determined: ") +
                                      last.what(),
                                  about);
}

} // namespace idem::detail
