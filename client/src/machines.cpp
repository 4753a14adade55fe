#include <idem/machines.hpp>

#include "outcome.hpp"

namespace idem {

namespace {

using detail::statement;

constexpr detail::words<5> kOutcomes{"moved", "already", "conflict", "not_allowed", "not_found"};

constexpr statement transition_statement{
    "idem_transition", "SELECT outcome, state FROM @idem@.idem_transition($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
                       "$3::pg_catalog.text, $4::pg_catalog.text, $5::pg_catalog.name)"};
constexpr statement can_statement{
    "idem_can_transition", "SELECT @idem@.idem_can_transition($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text)",
    true};
constexpr statement check_statement{
    "idem_check_transition",
    "SELECT @idem@.idem_check_transition($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text)", true};
constexpr statement dot_statement{"idem_machine_dot", "SELECT @idem@.idem_machine_dot($1::pg_catalog.text)", true};
constexpr statement mermaid_statement{"idem_machine_mermaid", "SELECT @idem@.idem_machine_mermaid($1::pg_catalog.text)", true};

} // namespace

const char *name(transition_outcome outcome) noexcept { return detail::word_of(kOutcomes, outcome); }

namespace detail {

command transition_step(const std::string &table, const row &key, const std::optional<std::string> &from, const std::string &to,
                        const std::optional<std::string> &state_column) {
    return {&transition_statement, {table, key.json(), from, to, state_column}, {key.json()}};
}

transition_result transition_of(const rows &answer) {
    const record &one = answer.at(0);
    return {outcome_of<transition_outcome>(kOutcomes, one.at(0)), one.at(1)};
}

} // namespace detail

transition_result transition(const target &at, const std::string &table, const row &key, const std::optional<std::string> &from,
                             const std::string &to, const std::optional<std::string> &state_column) {
    return detail::transition_of(detail::call(at, detail::transition_step(table, key, from, to, state_column)));
}

bool can_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to) {
    return detail::call(at, {&can_statement, {machine, from, to}, {machine}}).at(0).at(0) == "t";
}

void check_transition(const target &at, const std::string &machine, const std::string &from, const std::string &to) {
    detail::call(at, {&check_statement, {machine, from, to}, {machine}});
}

std::string machine_dot(const target &at, const std::string &machine) {
    return detail::call(at, {&dot_statement, {machine}, {machine}}).at(0).at(0).value();
}

std::string machine_mermaid(const target &at, const std::string &machine) {
    return detail::call(at, {&mermaid_statement, {machine}, {machine}}).at(0).at(0).value();
}

} // namespace idem
