// Flows on rows of the application's tables: change a row only if no other caller has (optimistic, conditional), lock it while
// the work runs (pessimistic), insert it only once (unique, guarded). docs/rows.md describes the SQL functions, their
// outcomes and errors.
//
// For all functions:
//  - `table` is a name as in SQL, quoted and with a schema where necessary: public.item, "Odd name". Without a schema it is
//    looked up in the session's search_path.
//  - `key`, `changes`, `expected` and `new_row` are columns with values (idem/row.hpp). The key's columns are those of the
//    primary key or of a usable unique index.
//  - rows are JSON text, in results and as arguments of callables. Its numbers are exact; a JSON parser may round them.
//  - everything runs with the privileges, the row-level security and the triggers of the connection's user.
//  - several threads may call any function at once on one client.
//
// Further errors: bad_input (no such column, 42P10 for columns that are not a key, a violated constraint …), denied, read_only,
// busy after the session's own lock_timeout, cancelled, transient, connection_lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/request.hpp>
#include <idem/row.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class row_outcome {
    updated,      ///< the row was as expected, and is changed
    adjusted,     ///< the number is changed
    locked,       ///< the row is locked until this transaction ends
    inserted,     ///< the row was new
    conflict,     ///< the row is not as expected: another caller changed it
    out_of_range, ///< the sum would be below the minimum or above the maximum
    busy,         ///< another transaction held the row for longer than the wait
    duplicate,    ///< such a row exists
    not_found,    ///< there is no such row, or row-level security hides it
    unchanged     ///< `optimistic` only: the callable wanted no change
};

/// As the SQL functions spell it: "updated".
const char *name(row_outcome outcome) noexcept;

/// The outcome, and the row after the call.
struct row_result {
    row_outcome outcome;
    std::optional<std::string> row;      ///< the columns that the user may read; nothing: no row, or it is hidden
    std::optional<std::int64_t> version; ///< optimistic_update and optimistic: of that row

    /// Whether the outcome is updated, locked or inserted.
    explicit operator bool() const noexcept;
};

struct adjust_result {
    row_outcome outcome;              ///< adjusted, out_of_range or not_found
    std::optional<std::string> value; ///< the number after the call: decimal digits, exact

    explicit operator bool() const noexcept { return outcome == row_outcome::adjusted; }
};

/// Numbers as text, so that they are exact. Nothing: no bound.
struct bounds {
    std::optional<std::string> minimum = "0";
    std::optional<std::string> maximum;
};

// --- Single calls ---------------------------------------------------------------------------------------------------------
//
// One round trip each. On a client the call is a transaction of its own, retried after 40001 and 40P01; a lost reply throws
// outcome_unknown. In a transaction it commits and rolls back with it.

/// Changes the row if it has the expected version. updated; conflict, with the current row and version; not_found.
/// Errors: 55000 optimistic_enable was not called for the table.
row_result optimistic_update(const target &at, const std::string &table, const row &key, std::int64_t expected_version,
                             const row &changes);
/// Changes the row if the columns of `expected` have these values (null is a value). updated; conflict; not_found.
row_result conditional_update(const target &at, const std::string &table, const row &key, const row &expected,
                              const row &changes);
/// Adds `delta` to a number if the sum stays within the bounds. adjusted; out_of_range; not_found.
adjust_result conditional_adjust(const target &at, const std::string &table, const row &key, const std::string &column,
                                 const std::string &delta, const bounds &within = {});
/// Locks the row until the transaction ends. locked; busy; not_found. REQUIRES: a transaction as the target; on a client the
/// lock is released when the call returns.
row_result pessimistic_lock(const target &at, const std::string &table, const row &key,
                            const wait_limit &wait = wait_limit::forever());
/// The same for many rows, in one global order, so that two callers cannot deadlock. One result for each key, in the order of
/// `keys`.
std::vector<row_result> pessimistic_lock_many(const target &at, const std::string &table, const std::vector<row> &keys,
                                              const wait_limit &wait = wait_limit::forever());
/// Inserts the row unless one with the same conflict columns (empty: the primary key) exists. inserted; duplicate, with the
/// existing row. Waits for another transaction that is inserting the same row.
row_result unique_insert(const target &at, const std::string &table, const row &new_row,
                         const std::vector<std::string> &conflict_columns = {});
/// The same for a table that cannot have the unique index; it needs an ordinary index that begins with the match columns.
/// Guards against other callers of this function only.
row_result guarded_insert(const target &at, const std::string &table, const row &new_row,
                          const std::vector<std::string> &match_columns);

// --- Flows ----------------------------------------------------------------------------------------------------------------
//
// Each has its own transaction, and the retries of `transact`: after 40001, 40P01, and a connection that broke before COMMIT.
// So the callable may run more than once, and commits at most once. Its exceptions roll everything back and reach the caller. A
// lost reply to COMMIT throws outcome_unknown.
//
// The step is sent with BEGIN: a flow costs two round trips in addition to those of the callable. When the step does not
// happen, the callable does not run, nothing is kept, and the cost is one round trip. The result of a callable of conditional,
// unique and guarded is ignored.

namespace detail {

command optimistic_read(const std::string &table, const row &key);
command conditional_step(const std::string &table, const row &key, const row &expected, const row &changes);
command lock_step(const std::string &table, const row &key, const wait_limit &wait);
command unique_step(const std::string &table, const row &new_row, const std::vector<std::string> &conflict_columns);
command guarded_step(const std::string &table, const row &new_row, const std::vector<std::string> &match_columns);
row_result row_of(const rows &answer);
/// The locked row; throws busy or not_found if it is not locked.
std::string locked_row(const rows &answer, const std::string &table, const row &key);
/// The error for conflicts that used up the attempts.
std::exception_ptr too_many_conflicts(const std::string &table, const row &key);

using change_function = std::function<std::optional<row>(const std::string &)>;
row_result optimistic_without_transaction(client &db, const std::string &table, const row &key, const change_function &change,
                                          const flow_options &options);

template <typename F> row_result row_flow(client &db, const command &step, F &work, const flow_options &options) {
    static_assert(std::is_invocable_v<F &, transaction &, const std::string &>,
                  "work is called as work(idem::transaction &, const std::string &row)");
    return step_flow(db, options, step, row_of, [&](transaction &tx, const row_result &done) {
        const std::string now = done.row.value_or("{}");
        work(tx, now);
    });
}

} // namespace detail

/// Reads the row, calls `change` with it, and writes the changes if no other caller changed the row meanwhile; otherwise
/// repeats. `change` returns the changes (a row, or json_text), or std::nullopt to leave the row as it is. REQUIRES:
/// optimistic_enable was called for the table.
///
///  - `change(const std::string &row)`: no transaction is open while it runs, so it may take long. One round trip to read, one
///    to write; a conflict returns the new row and costs one more. REQUIRES: `change` has no side effects.
///  - `change(transaction &, const std::string &row)`: the read, the statements of `change` and the write are one transaction,
///    which a conflict rolls back and repeats. Three round trips.
///
/// Conflicts are retried like deadlocks, with full jitter, as often as the retry policy says; then stale_version (ID004) is
/// thrown. Returns updated, unchanged or not_found (nothing is kept). Throws outcome_unknown when the reply to the write or to
/// COMMIT was lost: the version of the row shows whether it was changed, but not by which caller.
///
///     idem::optimistic(db, "account", {{"id", 7}}, [](const std::string &row) -> std::optional<idem::row> {
///         return idem::row{{"credit", raised(row)}};
///     });
template <typename F>
row_result optimistic(client &db, const std::string &table, const row &key, const flow_options &options, F &&change) {
    static_assert(std::is_invocable_r_v<std::optional<row>, F &, transaction &, const std::string &> ||
                      std::is_invocable_r_v<std::optional<row>, F &, const std::string &>,
                  "change is called as change(const std::string &row) or change(idem::transaction &, const std::string &row), "
                  "and returns a std::optional<idem::row>");
    if constexpr (std::is_invocable_v<F &, transaction &, const std::string &>) {
        return detail::run_flow(db, options, [&](detail::flow &run) {
            for (;;) {
                const row_result seen = detail::row_of(run.begin(detail::optimistic_read(table, key)));
                if (seen.outcome == row_outcome::not_found) {
                    run.cancel();
                    return seen;
                }
                const std::string current = seen.row.value_or("{}");
                const std::optional<row> changes = change(run.tx(), current);
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
                run.conflicted("ID004", "another caller changed the row", detail::too_many_conflicts(table, key));
            }
        });
    } else {
        return detail::optimistic_without_transaction(db, table, key, change, options);
    }
}
template <typename F> row_result optimistic(client &db, const std::string &table, const row &key, F &&change) {
    return optimistic(db, table, key, flow_options{}, std::forward<F>(change));
}

/// Locks the row, runs `work(transaction &, const std::string &row)` with its newest version, commits, and returns what `work`
/// returned. Throws busy (55P03) when another transaction held the row for longer than `wait`, and not_found (P0002).
///
/// After a lost connection the next attempt waits for at least options.recovery_wait: the lost transaction may hold the row.
template <typename F>
auto pessimistic(client &db, const std::string &table, const row &key, const wait_limit &wait, const flow_options &options,
                 F &&work) {
    static_assert(std::is_invocable_v<F &, transaction &, const std::string &>,
                  "work is called as work(idem::transaction &, const std::string &row)");
    return detail::run_flow(db, options, [&](detail::flow &run) {
        const std::string current = detail::locked_row(run.begin(detail::lock_step(table, key, run.wait(wait))), table, key);
        return run.commit_after(work, run.tx(), current);
    });
}
template <typename F> auto pessimistic(client &db, const std::string &table, const row &key, const wait_limit &wait, F &&work) {
    return pessimistic(db, table, key, wait, flow_options{}, std::forward<F>(work));
}
/// Waits without bound.
template <typename F> auto pessimistic(client &db, const std::string &table, const row &key, F &&work) {
    return pessimistic(db, table, key, wait_limit::forever(), flow_options{}, std::forward<F>(work));
}

/// Runs conditional_update and, if the row was as expected, `work(transaction &, const std::string &row)` with the changed row
/// in the same transaction. updated; conflict, with the current row; not_found.
template <typename F>
row_result conditional(client &db, const std::string &table, const row &key, const row &expected, const row &changes,
                       const flow_options &options, F &&work) {
    return detail::row_flow(db, detail::conditional_step(table, key, expected, changes), work, options);
}
template <typename F>
row_result conditional(client &db, const std::string &table, const row &key, const row &expected, const row &changes,
                       F &&work) {
    return conditional(db, table, key, expected, changes, flow_options{}, std::forward<F>(work));
}

/// Runs unique_insert and, if the row is new, `work(transaction &, const std::string &row)` in the same transaction. inserted;
/// duplicate, with the existing row, which is committed.
template <typename F>
row_result unique(client &db, const std::string &table, const row &new_row, const std::vector<std::string> &conflict_columns,
                  const flow_options &options, F &&work) {
    return detail::row_flow(db, detail::unique_step(table, new_row, conflict_columns), work, options);
}
template <typename F>
row_result unique(client &db, const std::string &table, const row &new_row, const std::vector<std::string> &conflict_columns,
                  F &&work) {
    return unique(db, table, new_row, conflict_columns, flow_options{}, std::forward<F>(work));
}
/// The conflict columns are those of the primary key.
template <typename F> row_result unique(client &db, const std::string &table, const row &new_row, F &&work) {
    return unique(db, table, new_row, {}, flow_options{}, std::forward<F>(work));
}

/// The same with guarded_insert.
template <typename F>
row_result guarded(client &db, const std::string &table, const row &new_row, const std::vector<std::string> &match_columns,
                   const flow_options &options, F &&work) {
    return detail::row_flow(db, detail::guarded_step(table, new_row, match_columns), work, options);
}
template <typename F>
row_result guarded(client &db, const std::string &table, const row &new_row, const std::vector<std::string> &match_columns,
                   F &&work) {
    return guarded(db, table, new_row, match_columns, flow_options{}, std::forward<F>(work));
}

} // namespace idem
