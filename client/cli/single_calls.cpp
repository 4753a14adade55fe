// token, next-id, transition, machine: one call each.
#include <idem/ids.hpp>
#include <idem/machines.hpp>
#include <idem/tokens.hpp>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "queries.hpp"
#include "table.hpp"

namespace idem::cli {

int issue_token(context &c) {
    const settings &given = c.given;
    const std::string token = ask(c, [&] {
        return given.ttl ? idem::issue_token(c.db, given.subject, *given.ttl, given.scope)
                         : idem::issue_token(c.db, given.subject, std::chrono::minutes(30), given.scope);
    });
    print(given.json ? nlohmann::json{{"token", token}}.dump() + "\n" : token + "\n");
    return kDone;
}

int redeem_token(context &c) {
    const token_outcome outcome = ask(c, [&] { return idem::redeem_token(c.db, c.given.key, c.given.subject, c.given.scope); });
    show_word(c, name(outcome));
    return outcome == token_outcome::accepted ? kDone : outcome == token_outcome::in_flight ? kTryAgain : kNo;
}

int next_ids(context &c) {
    std::vector<std::string> ids;
    std::string lines;
    for (const std::int64_t id : ask(c, [&] { return idem::next_ids(c.db, static_cast<std::size_t>(c.given.count)); })) {
        ids.push_back(std::to_string(id));
        lines += ids.back() + "\n";
    }
    print(c.given.json ? as_json(ids) : lines);
    return kDone;
}

int move_row(context &c) {
    const transition_result result =
        ask(c, [&] { return transition(c.db, c.given.key, json_text(c.given.row_key), c.given.from_state, c.given.to_state); });
    nlohmann::ordered_json object{{"outcome", name(result.outcome)}, {"state", nullptr}};
    if (result.state)
        object["state"] = *result.state;
    show_outcome(c, object.dump());
    return result || result.outcome == transition_outcome::already ? kDone : kNo;
}

int draw_machine(context &c) {
    const std::string graph = ask(c, [&] { return machine_dot(c.db, c.given.key); });
    print(c.given.json ? nlohmann::json{{"dot", graph}}.dump() + "\n"
                       : graph + (graph.empty() || graph.back() != '\n' ? "\n" : ""));
    return kDone;
}

} // namespace idem::cli
