// A transaction that is run again when it has to be, and what all flows of one transaction are made of.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/request.hpp>
#include <idem/transaction.hpp>

namespace idem {

struct flow_options {
    isolation level = isolation::read_committed;
    /// Nothing: the client's.
    std::optional<retry_policy> retry;
    /// After a connection broke, how long to wait for the server to notice it and let go of what its transaction held, where
    /// the flow would wait for less.
    duration recovery_wait{30'000};
};

namespace detail {

/// One attempt after the other: BEGIN with a first step, the work, COMMIT with a last one. Not thread-safe.
class flow {
  public:
    flow(client &db, const flow_options &options);

    /// Opens the transaction and runs `first`, in one round trip; the answer.
    const rows &begin(const command &first);
    void begin();
    transaction &tx() { return *tx_; }
    /// Runs `last` and commits, in one round trip; the answers.
    std::vector<rows> commit(const std::vector<command> &last = {});
    /// Rolls back, without waiting for the server: there is nothing to keep.
    void cancel() noexcept { tx_.reset(); }
    /// work(arguments…), then COMMIT; what the work returned.
    template <typename F, typename... Arguments> auto commit_after(F &work, Arguments &...arguments) {
        if constexpr (std::is_void_v<std::invoke_result_t<F &, Arguments &...>>) {
            work(arguments...);
            commit();
        } else {
            auto result = work(arguments...);
            commit();
            return result;
        }
    }

    /// Rolls back; returns after a pause when everything is to be done again, else throws what is to be thrown. `can_tell`: a
    /// commit whose answer was lost is no reason to give up, as the next attempt's first step finds out what it came to; when
    /// that cannot be found out in the end, outcome_unknown is thrown.
    void failed(const std::exception_ptr &problem, bool can_tell = false);
    /// The same for an outcome that is no exception; throws `give_up` in the end.
    void conflicted(const std::string &sqlstate, const std::string &message, const std::exception_ptr &give_up);

    /// The first step found that no attempt before this one committed, nor holds anything any more.
    void settled() noexcept { lost_ = unknown_ = false; }
    /// Whether a connection broke, so that its backend may still hold what it had locked.
    bool lost() const noexcept { return lost_; }
    /// Whether it broke during COMMIT.
    bool unknown() const noexcept { return unknown_; }
    /// For steps that never wait, and were told that somebody else is at it: after a lost connection that may be its own
    /// transaction, so pauses and returns true, until recovery_wait and the attempts' deadline are over. False: it is not.
    bool still_held();
    /// How long to wait for another holder when `asked` is what the caller would wait.
    patience wait(patience asked) const;

  private:
    void open(const std::vector<command> &first);

    client &db_;
    const flow_options &options_;
    retry_policy retry_;
    retry_loop loop_;
    subject about_;
    std::unique_ptr<transaction> tx_;
    std::optional<std::chrono::steady_clock::time_point> held_since_;
    bool committing_ = false;
    bool lost_ = false;
    bool unknown_ = false;
};

/// Runs `attempt(flow &)` until it returns, or fails for good.
template <typename F> auto run_flow(client &db, const flow_options &options, F &&attempt, bool can_tell = false) {
    flow run(db, options);
    for (;;) {
        try {
            return attempt(run);
        } catch (...) {
            run.failed(std::current_exception(), can_tell);
        }
    }
}

/// The step travels with BEGIN; `read` makes a result of its answer. Did it happen (the result is true), then work(transaction
/// &, result) runs and all of it commits; else there is nothing to keep.
template <typename Read, typename F>
auto step_flow(client &db, const flow_options &options, const command &step, Read read, F &&work) {
    return run_flow(db, options, [&](flow &run) {
        auto result = read(run.begin(step));
        if (result) {
            work(run.tx(), result);
            run.commit();
        } else {
            run.cancel();
        }
        return result;
    });
}

} // namespace detail

/// Runs `work(transaction &)` in a transaction, commits it, and returns what `work` returned. When `work` throws, everything is
/// rolled back and the exception goes on to the caller.
///
/// Runs again, on a new connection if need be, after a serialization failure or a deadlock (40001, 40P01; be it of a statement
/// or of COMMIT) and when the connection broke before COMMIT was sent; as often as the retry policy says. So `work` may run
/// more than once, and commits at most once: effects outside the database belong into `leased`.
///
/// Round trips on top of the work's own: two.
///
/// Throws outcome_unknown when the connection broke while COMMIT was under way: a plain transaction leaves nothing behind by
/// which one could tell. Where that matters use `once`. Throws rolled_back when COMMIT was answered with ROLLBACK, transient
/// or connection_lost (or libpqxx's exception for them) when the attempts are used up, and everything that `work` throws.
///
///     std::string total = idem::transact(db, [&](idem::transaction &tx) {
///         tx.exec("UPDATE …");
///         return std::string(tx.exec("SELECT …")[0][0].c_str());
///     });
template <typename F> auto transact(client &db, F &&work, const flow_options &options = {}) {
    return detail::run_flow(db, options, [&](detail::flow &run) {
        run.begin();
        return run.commit_after(work, run.tx());
    });
}

} // namespace idem
