// Guards for rows of your own tables: change a row only if nobody else has (optimistic, conditional), keep others off it while
// you work (pessimistic), insert it only once (unique, guarded). The SQL functions, their outcomes and errors are described in
// docs/rows.md.
//
// Everywhere:
//  - `table` is a name as in SQL, quoted and with its schema where need be: public.item, "Odd name". It is looked up by the
//    session's search_path unless it has a schema.
//  - `key`, `changes`, `expected` and `new_row` are JSON objects of columns, as text. The key's columns are those of the
//    primary key or of a usable unique index.
//  - rows come back as JSON text. Numbers in it are as exact as in the database: mind what your parser makes of them.
//  - everything runs with the privileges, the row-level security and the triggers of the connection's user.
//  - all functions may be called by several threads at once on one client.
//
// Errors besides those named: bad_input (no such column, 42P10 for a key that is none, a constraint …), denied, read_only,
// busy for a lock_timeout of the session's own, cancelled, transient, connection_lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/request.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class row_outcome {
    updated,      ///< changed: the row was as expected
    adjusted,     ///< the number was changed
    locked,       ///< the row is this transaction's until it ends
    inserted,     ///< the row is new
    conflict,     ///< somebody was faster: the row is not as expected
    out_of_range, ///< the sum would be below the minimum or above the maximum
    busy,         ///< somebody else held the row for as long as one wanted to wait
    duplicate,    ///< such a row is there
    not_found,    ///< there is no such row, or row-level security hides it
    unchanged     ///< `optimistic` only: the callable wanted no change
};

/// The word the SQL functions have for it: "updated".
const char *name(row_outcome outcome) noexcept;

/// What happened, and the row that is there now.
struct row_result {
    row_outcome outcome;
    std::optional<std::string> row;      ///< the columns that one may read, as it is after the call; nothing: no row, or hidden
    std::optional<std::int64_t> version; ///< optimistic_update and optimistic: of that row

    /// Whether it happened: updated, locked or inserted.
    explicit operator bool() const noexcept;
};

struct adjust_result {
    row_outcome outcome;              ///< adjusted, out_of_range or not_found
    std::optional<std::string> value; ///< the number as it is now: decimal digits, exact

    explicit operator bool() const noexcept { return outcome == row_outcome::adjusted; }
};

/// Numbers as text, so that no digit is lost. Nothing: no bound.
struct bounds {
    std::optional<std::string> minimum = "0";
    std::optional<std::string> maximum;
};

// --- Single calls ---------------------------------------------------------------------------------------------------------
//
// One round trip each. On a client the call is a transaction of its own, run again after 40001 and 40P01; when its reply is
// lost, outcome_unknown is thrown. In a transaction it commits and rolls back with it.

/// Changes the row if it has the expected version. updated; conflict, with the row and version that are there; not_found.
/// Errors: 55000 optimistic_enable was not called for the table.
row_result optimistic_update(const target &at, const std::string &table, const std::string &key, std::int64_t expected_version,
                             const std::string &changes);
/// Changes the row if the columns of `expected` have these values, null being one. updated; conflict; not_found.
row_result conditional_update(const target &at, const std::string &table, const std::string &key, const std::string &expected,
                              const std::string &changes);
/// Adds `delta` to a number if the sum stays within the bounds. adjusted; out_of_range; not_found.
adjust_result conditional_adjust(const target &at, const std::string &table, const std::string &key, const std::string &column,
                                 const std::string &delta, const bounds &within = {});
/// Locks the row until the transaction ends. locked; busy; not_found. REQUIRES: a transaction as the target; on a client the
/// lock is gone when the call returns.
row_result pessimistic_lock(const target &at, const std::string &table, const std::string &key,
                            const patience &wait = patience::forever());
/// The same for many rows, in an order in which two callers cannot deadlock on each other. One result for each key, in the
/// order of `keys`.
std::vector<row_result> pessimistic_lock_many(const target &at, const std::string &table, const std::vector<std::string> &keys,
                                              const patience &wait = patience::forever());
/// Inserts the row unless one with the same conflict columns (empty: the primary key) is there. inserted; duplicate, with the
/// row that is there. Waits for a rival that has not committed.
row_result unique_insert(const target &at, const std::string &table, const std::string &new_row,
                         const std::vector<std::string> &conflict_columns = {});
/// The same for a table that cannot have the unique index; an ordinary one that begins with the match columns is needed.
/// Guards against other callers of this function only.
row_result guarded_insert(const target &at, const std::string &table, const std::string &new_row,
                          const std::vector<std::string> &match_columns);

// --- Flows ----------------------------------------------------------------------------------------------------------------
//
// Each owns its transaction, and its retries as `transact` has them: 40001, 40P01, and a connection that broke before COMMIT;
// so the callable may run more than once, and commits at most once. What it throws rolls everything back and goes on to the
// caller. A lost reply to COMMIT is outcome_unknown.
//
// The step travels with BEGIN: a flow costs two round trips on top of the callable's own, and one where the step did not
// happen; the callable does not run then, and nothing is kept. What a callable of conditional, unique and guarded returns is
// dropped.

namespace detail {

command optimistic_read(const std::string &table, const std::string &key);
command conditional_step(const std::string &table, const std::string &key, const std::string &expected,
                         const std::string &changes);
command lock_step(const std::string &table, const std::string &key, const patience &wait);
command unique_step(const std::string &table, const std::string &new_row, const std::vector<std::string> &conflict_columns);
command guarded_step(const std::string &table, const std::string &new_row, const std::vector<std::string> &match_columns);
row_result row_of(const rows &answer);
/// The row; throws busy or not_found when it is not locked.
std::string locked_row(const rows &answer, const std::string &table, const std::string &key);
/// What is thrown when conflicts use up the attempts.
std::exception_ptr too_many_conflicts(const std::string &table, const std::string &key);

using change_function = std::function<std::optional<std::string>(const std::string &)>;
row_result optimistic_without_transaction(client &db, const std::string &table, const std::string &key,
                                          const change_function &change, const flow_options &options);

template <typename F> row_result row_flow(client &db, const command &step, F &work, const flow_options &options) {
    return step_flow(db, options, step, row_of, [&](transaction &tx, const row_result &done) {
        const std::string now = done.row.value_or("{}");
        work(tx, now);
    });
}

} // namespace detail

/// Read, change, compare and set, until nobody was in between. `change` is called with the row and returns the changes, or
/// nothing to leave the row as it is. The table needs optimistic_enable.
///
///  - `change(const std::string &row)`: no transaction is open while it runs, so it may take its time. One round trip to read,
///    one to write; a conflict brings the row along and costs one more. REQUIRES: it does nothing but compute.
///  - `change(transaction &, const std::string &row)`: reads, what `change` does in the transaction, and the write are one
///    transaction, which a conflict rolls back and runs anew. Three round trips.
///
/// Conflicts are retried like deadlocks, with full jitter, as often as the retry policy says; then stale_version (ID004) is
/// thrown. Returns updated, unchanged or not_found (nothing is kept). Throws outcome_unknown when the reply to the write, or to
/// COMMIT, was lost: the version of the row tells whether somebody changed it, not who.
///
///     idem::optimistic(db, "account", R"({"id": 7})", [](const std::string &row) { return raise_limit(row); });
template <typename F>
row_result optimistic(client &db, const std::string &table, const std::string &key, F &&change,
                      const flow_options &options = {}) {
    if constexpr (std::is_invocable_v<F &, transaction &, const std::string &>) {
        return detail::run_flow(db, options, [&](detail::flow &run) {
            for (;;) {
                const row_result seen = detail::row_of(run.begin(detail::optimistic_read(table, key)));
                if (seen.outcome == row_outcome::not_found) {
                    run.cancel();
                    return seen;
                }
                const std::string row = seen.row.value_or("{}");
                const std::optional<std::string> changes = change(run.tx(), row);
                if (!changes) {
                    run.commit();
                    return row_result{row_outcome::unchanged, seen.row, seen.version};
                }
                const row_result done = optimistic_update(run.tx(), table, key, seen.version.value(), *changes);
                if (done)
                    run.commit();
                else
                    run.cancel();
                if (done.outcome != row_outcome::conflict)
                    return done;
                run.conflicted("ID004", "somebody else changed the row", detail::too_many_conflicts(table, key));
            }
        });
    } else {
        return detail::optimistic_without_transaction(db, table, key, change, options);
    }
}

/// Locks the row, runs `work(transaction &, const std::string &row)` with its newest version, commits, and returns what `work`
/// returned. Throws busy (55P03) when somebody else held the row for as long as `wait`, and not_found (P0002).
///
/// After a lost connection the next attempt waits for options.recovery_wait at least: it is the lost one that holds the row.
template <typename F>
auto pessimistic(client &db, const std::string &table, const std::string &key, F &&work,
                 const patience &wait = patience::forever(), const flow_options &options = {}) {
    return detail::run_flow(db, options, [&](detail::flow &run) {
        const std::string row = detail::locked_row(run.begin(detail::lock_step(table, key, run.wait(wait))), table, key);
        return run.commit_after(work, run.tx(), row);
    });
}

/// conditional_update, and when the row was as expected `work(transaction &, const std::string &row)` with the changed row, in
/// the same transaction. updated; conflict, with the row that is there; not_found.
template <typename F>
row_result conditional(client &db, const std::string &table, const std::string &key, const std::string &expected,
                       const std::string &changes, F &&work, const flow_options &options = {}) {
    return detail::row_flow(db, detail::conditional_step(table, key, expected, changes), work, options);
}

/// unique_insert, and when the row is new `work(transaction &, const std::string &row)` in the same transaction. inserted;
/// duplicate, with the row that is there, of committed transactions only.
template <typename F>
row_result unique(client &db, const std::string &table, const std::string &new_row, F &&work,
                  const std::vector<std::string> &conflict_columns = {}, const flow_options &options = {}) {
    return detail::row_flow(db, detail::unique_step(table, new_row, conflict_columns), work, options);
}

/// The same with guarded_insert.
template <typename F>
row_result guarded(client &db, const std::string &table, const std::string &new_row,
                   const std::vector<std::string> &match_columns, F &&work, const flow_options &options = {}) {
    return detail::row_flow(db, detail::guarded_step(table, new_row, match_columns), work, options);
}

} // namespace idem
