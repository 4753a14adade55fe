#include <idem/rows.hpp>

#include <limits>

#include "outcome.hpp"

namespace idem {

namespace {

using detail::command;
using detail::parameter;
using detail::statement;

constexpr detail::words<10> kOutcomes{"updated",      "adjusted", "locked",    "inserted",  "conflict",
                                      "out_of_range", "busy",     "duplicate", "not_found", "unchanged"};

// All return the outcome, the row (or the number), and perhaps a version.
constexpr statement optimistic_update_statement{
    "idem_optimistic_update",
    "SELECT outcome, row_data::pg_catalog.text, version FROM @idem@.optimistic_update($1::pg_catalog.regclass, "
    "$2::pg_catalog.jsonb, $3::pg_catalog.int8, $4::pg_catalog.jsonb)"};
// A version that no row has: the function only reads.
constexpr statement optimistic_read_statement{
    "idem_optimistic_read",
    "SELECT outcome, row_data::pg_catalog.text, version FROM @idem@.optimistic_update($1::pg_catalog.regclass, "
    "$2::pg_catalog.jsonb, $3::pg_catalog.int8, '{}'::pg_catalog.jsonb)",
    true};
constexpr statement conditional_update_statement{
    "idem_conditional_update",
    "SELECT outcome, row_data::pg_catalog.text FROM @idem@.conditional_update($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.jsonb, $4::pg_catalog.jsonb)"};
constexpr statement conditional_adjust_statement{
    "idem_conditional_adjust",
    "SELECT outcome, value FROM @idem@.conditional_adjust($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.name, $4::pg_catalog.numeric, $5::pg_catalog.numeric, $6::pg_catalog.numeric)"};
constexpr statement lock_statement{
    "idem_pessimistic_lock",
    "SELECT outcome, row_data::pg_catalog.text FROM @idem@.pessimistic_lock($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.interval)",
    true};
constexpr statement lock_many_statement{
    "idem_pessimistic_lock_many",
    "SELECT outcome, row_data::pg_catalog.text FROM @idem@.pessimistic_lock_many($1::pg_catalog.regclass, "
    "$2::pg_catalog.jsonb[], $3::pg_catalog.interval)",
    true};
constexpr statement unique_insert_statement{
    "idem_unique_insert",
    "SELECT outcome, row_data::pg_catalog.text FROM @idem@.unique_insert($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.name[])"};
constexpr statement guarded_insert_statement{
    "idem_guarded_insert",
    "SELECT outcome, row_data::pg_catalog.text FROM @idem@.guarded_insert($1::pg_catalog.regclass, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.name[])"};

parameter names_text(const std::vector<std::string> &names) { return detail::array_text({names.begin(), names.end()}); }

row_result row_of_one(const detail::record &answer) {
    row_result result{detail::outcome_of<row_outcome>(kOutcomes, answer.at(0)), answer.at(1), std::nullopt};
    if (answer.size() > 2 && answer[2])
        result.version = detail::to_integer(answer[2]);
    return result;
}

command optimistic_step(const std::string &table, const row &key, std::int64_t expected_version, const row &changes) {
    return {&optimistic_update_statement, {table, key.json(), std::to_string(expected_version), changes.json()}, {key.json()}};
}

} // namespace

const char *name(row_outcome outcome) noexcept { return detail::word_of(kOutcomes, outcome); }

row_result::operator bool() const noexcept {
    return outcome == row_outcome::updated || outcome == row_outcome::locked || outcome == row_outcome::inserted;
}

namespace detail {

row_result row_of(const rows &answer) { return row_of_one(answer.at(0)); }

command optimistic_read(const std::string &table, const row &key) {
    return {&optimistic_read_statement,
            {table, key.json(), std::to_string(std::numeric_limits<std::int64_t>::min())},
            {key.json()}};
}

command conditional_step(const std::string &table, const row &key, const row &expected, const row &changes) {
    return {&conditional_update_statement, {table, key.json(), expected.json(), changes.json()}, {key.json()}};
}

command lock_step(const std::string &table, const row &key, const wait_limit &wait) {
    return {&lock_statement, {table, key.json(), interval_text(wait.bound)}, {key.json()}};
}

command unique_step(const std::string &table, const row &new_row, const std::vector<std::string> &conflict_columns) {
    return {&unique_insert_statement,
            {table, new_row.json(), conflict_columns.empty() ? parameter() : names_text(conflict_columns)}};
}

command guarded_step(const std::string &table, const row &new_row, const std::vector<std::string> &match_columns) {
    return {&guarded_insert_statement, {table, new_row.json(), names_text(match_columns)}};
}

std::string locked_row(const rows &answer, const std::string &table, const row &key) {
    const row_result held = row_of(answer);
    if (held.outcome == row_outcome::busy)
        throw busy("55P03", "row " + key.json() + " of table " + table + " is locked by another transaction", {key.json()});
    if (held.outcome == row_outcome::not_found)
        throw not_found("P0002", "table " + table + " has no row " + key.json(), {key.json()});
    return held.row.value_or("{}");
}

std::exception_ptr too_many_conflicts(const std::string &table, const row &key) {
    return std::make_exception_ptr(stale_version(
        "ID004", "row " + key.json() + " of table " + table + " was changed by other callers in every attempt", {key.json()}));
}

row_result optimistic_without_transaction(client &db, const std::string &table, const row &key, const change_function &change,
                                          const flow_options &options) {
    const retry_policy retry = options.retry ? *options.retry : db.options().retry;
    std::optional<row_result> seen;
    for (retry_loop loop{retry};;) {
        try {
            if (!seen)
                seen = row_of(call_alone(db, optimistic_read(table, key)));
            if (seen->outcome == row_outcome::not_found)
                return *seen;
            const std::optional<row> changes = change(seen->row.value_or("{}"));
            if (!changes)
                return {row_outcome::unchanged, seen->row, seen->version};
            seen = row_of(call_alone(db, optimistic_step(table, key, seen->version.value(), *changes)));
            if (seen->outcome != row_outcome::conflict)
                return *seen;
        } catch (...) {
            loop.failed(std::current_exception());
            continue;
        }
        loop.conflicted("ID004", "another caller changed the row", too_many_conflicts(table, key));
    }
}

} // namespace detail

row_result optimistic_update(const target &at, const std::string &table, const row &key, std::int64_t expected_version,
                             const row &changes) {
    return detail::row_of(detail::call(at, optimistic_step(table, key, expected_version, changes)));
}

row_result conditional_update(const target &at, const std::string &table, const row &key, const row &expected,
                              const row &changes) {
    return detail::row_of(detail::call(at, detail::conditional_step(table, key, expected, changes)));
}

adjust_result conditional_adjust(const target &at, const std::string &table, const row &key, const std::string &column,
                                 const std::string &delta, const bounds &within) {
    row_result done = detail::row_of(
        detail::call(at, {&conditional_adjust_statement,
                          {table, key.json(), column, delta, within.minimum.value_or("-infinity"), within.maximum},
                          {key.json()}}));
    return {done.outcome, std::move(done.row)};
}

row_result pessimistic_lock(const target &at, const std::string &table, const row &key, const wait_limit &wait) {
    return detail::row_of(detail::call(at, detail::lock_step(table, key, wait)));
}

std::vector<row_result> pessimistic_lock_many(const target &at, const std::string &table, const std::vector<row> &keys,
                                              const wait_limit &wait) {
    std::vector<detail::parameter> objects;
    for (const row &each : keys)
        objects.push_back(each.json());
    std::vector<row_result> results;
    for (const detail::record &each :
         detail::call(at, {&lock_many_statement, {table, detail::array_text(objects), detail::interval_text(wait.bound)}}))
        results.push_back(row_of_one(each));
    return results;
}

row_result unique_insert(const target &at, const std::string &table, const row &new_row,
                         const std::vector<std::string> &conflict_columns) {
    return detail::row_of(detail::call(at, detail::unique_step(table, new_row, conflict_columns)));
}

row_result guarded_insert(const target &at, const std::string &table, const row &new_row,
                          const std::vector<std::string> &match_columns) {
    return detail::row_of(detail::call(at, detail::guarded_step(table, new_row, match_columns)));
}

} // namespace idem
