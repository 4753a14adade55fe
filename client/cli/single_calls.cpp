// token, next-id, transition, machine: one call each.
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "queries.hpp"
#include "table.hpp"

namespace idem::cli {

namespace {

constexpr detail::statement issue_statement{
    "idem_cli_token_issue",
    "SELECT @idem@.idem_token_issue($1, COALESCE($2::pg_catalog.interval, '30 min'::pg_catalog.interval), $3)", true};
constexpr detail::statement redeem_statement{
    "idem_cli_token_redeem",
    "SELECT pg_catalog.json_build_object('outcome', @idem@.idem_token_redeem($1, $2, $3))::pg_catalog.text"};
constexpr detail::statement ids_statement{
    "idem_cli_next_ids", "SELECT @idem@.idem_next_id() FROM pg_catalog.generate_series(1, $1::pg_catalog.int4)", true};
constexpr detail::statement transition_statement{
    "idem_cli_transition",
    "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM @idem@.idem_transition($1::pg_catalog.regclass, "
    "$2::pg_catalog.jsonb, $3, $4) r"};
constexpr detail::statement dot_statement{"idem_cli_machine_dot", "SELECT @idem@.idem_machine_dot($1)", true};

std::string outcome_of(const std::string &object) { return nlohmann::json::parse(object).at("outcome").get<std::string>(); }

} // namespace

int issue_token(context &c) {
    const std::string token =
        query(c, issue_statement, {c.given.subject, detail::interval_text(c.given.ttl), c.given.scope}, {"", c.given.scope})
            .at(0);
    print(c.given.json ? nlohmann::json{{"token", token}}.dump() + "\n" : token + "\n");
    return kDone;
}

int redeem_token(context &c) {
    const std::string result =
        query(c, redeem_statement, {c.given.key, c.given.subject, c.given.scope}, {"", c.given.scope}).at(0);
    show_outcome(c, result);
    const std::string outcome = outcome_of(result);
    return outcome == "accepted" ? kDone : outcome == "in_flight" ? kTryAgain : kNo;
}

int next_ids(context &c) {
    const std::vector<std::string> ids = query(c, ids_statement, {std::to_string(c.given.count)});
    std::string lines;
    for (const std::string &id : ids)
        lines += id + "\n";
    print(c.given.json ? as_json(ids) : lines);
    return kDone;
}

int move_row(context &c) {
    const std::string result =
        query(c, transition_statement, {c.given.key, c.given.row_key, c.given.to_state, c.given.from_state}, {c.given.key, ""})
            .at(0);
    show_outcome(c, result);
    const std::string outcome = outcome_of(result);
    return outcome == "moved" || outcome == "already" ? kDone : kNo;
}

int draw_machine(context &c) {
    const std::string graph = query(c, dot_statement, {c.given.key}, {c.given.key, ""}).at(0);
    print(c.given.json ? nlohmann::json{{"dot", graph}}.dump() + "\n"
                       : graph + (graph.empty() || graph.back() != '\n' ? "\n" : ""));
    return kDone;
}

} // namespace idem::cli
