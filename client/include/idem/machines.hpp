// Rows whose state follows a machine (docs/machines.md). Defining and attaching machines is a matter of SQL.
//
// `table`, `key`, errors, retries and lost replies: as in idem/rows.hpp.
#pragma once

#include <optional>
#include <string>

#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class transition_outcome {
    moved,       ///< done
    already,     ///< it is in that state: a repeated call is no error
    conflict,    ///< it is not in the state that was expected
    not_allowed, ///< the machine does not lead there from here
    not_found    ///< there is no such row, or row-level security hides it
};

/// The word the SQL functions have for it: "moved".
const char *name(transition_outcome outcome) noexcept;

struct transition_result {
    transition_outcome outcome;
    std::optional<std::string> state; ///< the row's state as it is now; nothing: no row

    /// Whether it moved.
    explicit operator bool() const noexcept { return outcome == transition_outcome::moved; }
};

/// Moves one row to a state, in one round trip; `expected`: only from there. REQUIRES: one column of the table has a machine
/// attached (55000, 42702).
transition_result transition(const target &at, const std::string &table, const std::string &key, const std::string &to,
                             const std::optional<std::string> &expected = std::nullopt);

/// Whether the machine has this transition; false too for what is no state. Throws 42704 for no such machine.
bool can_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to);
/// Throws not_allowed (ID003) instead of saying false; the message lists the states that can be reached.
void check_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to);
/// The machine for Graphviz.
std::string machine_dot(const target &at, const std::string &machine);
/// The machine for Markdown.
std::string machine_mermaid(const target &at, const std::string &machine);

namespace detail {

command transition_step(const std::string &table, const std::string &key, const std::string &to,
                        const std::optional<std::string> &expected);
transition_result transition_of(const rows &answer);

} // namespace detail

/// Moves the row, and when it did move runs `work(transaction &)` in the same transaction: what belongs to the transition
/// happens once, with it or not at all. Every other outcome is returned without running `work`, and throws nothing.
///
/// Two round trips on top of the work's own, one where the row did not move. Runs again as `transact` does. Throws
/// outcome_unknown when the reply to COMMIT was lost: `already` on the next call means that the row was moved, by whomever.
template <typename F>
transition_result transition(client &db, const std::string &table, const std::string &key, const std::string &to,
                             const std::optional<std::string> &expected, F &&work, const flow_options &options = {}) {
    return detail::step_flow(db, options, detail::transition_step(table, key, to, expected), detail::transition_of,
                             [&](transaction &tx, const transition_result &) { work(tx); });
}

} // namespace idem
