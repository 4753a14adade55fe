// Rows whose state follows a state machine (docs/machines.md). Machines are defined and attached in SQL.
//
// `table`, `key`, errors, retries and lost replies: as in idem/rows.hpp.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <idem/row.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class transition_outcome {
    moved,       ///< the row has the new state
    already,     ///< the row was in that state: a repeated call is not an error
    conflict,    ///< the row is not in the state `from`
    not_allowed, ///< the machine has no such transition
    not_found    ///< there is no such row, or row-level security hides it
};

/// As the SQL functions spell it: "moved".
const char *name(transition_outcome outcome) noexcept;

struct transition_result {
    transition_outcome outcome;
    std::optional<std::string> state; ///< of the row after the call; nothing: no row

    /// Whether the row moved.
    explicit operator bool() const noexcept { return outcome == transition_outcome::moved; }
};

/// Moves one row from one state to another, in one round trip. `from` = std::nullopt: from any state. `state_column`: which
/// column moves, where several have a machine attached; nothing: REQUIRES that exactly one has (else 55000, 42702).
transition_result transition(const target &at, const std::string &table, const row &key, const std::optional<std::string> &from,
                             const std::string &to, const std::optional<std::string> &state_column = {});

/// Whether the machine has this transition; false for unknown states too. Throws error (42704) for an unknown machine.
bool can_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to);
/// Throws not_allowed (ID003) where can_transition returns false; the message lists the states that can be reached.
void check_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to);
/// The machine as a Graphviz graph.
std::string machine_dot(const target &at, const std::string &machine);
/// The machine as a Mermaid diagram.
std::string machine_mermaid(const target &at, const std::string &machine);

namespace detail {

command transition_step(const std::string &table, const row &key, const std::optional<std::string> &from, const std::string &to,
                        const std::optional<std::string> &state_column);
transition_result transition_of(const rows &answer);

} // namespace detail

struct transition_options : flow_options {
    std::optional<std::string> state_column{}; ///< as for transition without work
};

/// Moves the row and, if it moved, runs `work(transaction &)` in the same transaction: the transition and the work happen once,
/// together or not at all. All other outcomes are returned without running `work`, and are not exceptions.
///
/// Two round trips in addition to those of the work; one where the row did not move. Retries are those of `transact`. Throws
/// outcome_unknown when the reply to COMMIT was lost: `already` on the next call then means that this or another call moved it.
template <typename F>
transition_result transition(client &db, const std::string &table, const row &key, const std::optional<std::string> &from,
                             const std::string &to, const transition_options &options, F &&work) {
    static_assert(detail::is_work<F>, "work is called as work(idem::transaction &)");
    return detail::step_flow(db, options, detail::transition_step(table, key, from, to, options.state_column),
                             detail::transition_of, [&](transaction &tx, const transition_result &) { work(tx); });
}
// Not for a state column, which belongs to the call without work.
template <typename F, typename = std::enable_if_t<!std::is_convertible_v<F &&, std::optional<std::string>>>>
transition_result transition(client &db, const std::string &table, const row &key, const std::optional<std::string> &from,
                             const std::string &to, F &&work) {
    return transition(db, table, key, from, to, transition_options{}, std::forward<F>(work));
}

} // namespace idem
