// A transaction with retries, and the base of all flows that are one transaction.
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
    /// Nothing: the client's policy.
    std::optional<retry_policy> retry;
    /// The minimum wait for other holders after a connection broke: the server needs time to notice it and to release what its
    /// transaction held.
    duration recovery_wait{30'000};
};

namespace detail {

/// The attempts of a flow, each of them BEGIN with a first step, the work, and COMMIT with a last step. Not thread-safe.
class flow {
  public:
    flow(client &db, const flow_options &options);

    /// Opens the transaction and runs `first`, in one round trip. Returns its answer.
    const rows &begin(const command &first);
    void begin();
    transaction &tx() { return *tx_; }
    /// Runs `last` and commits, in one round trip. Returns its answers.
    std::vector<rows> commit(const std::vector<command> &last = {});
    /// Rolls back without waiting for the server.
    void cancel() noexcept { tx_.reset(); }
    /// Calls work(arguments…), commits, and returns what the work returned.
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

    /// Rolls back. Returns after a pause when the attempt is to be repeated, else throws. `can_verify_commit`: the next
    /// attempt's first step finds out whether a commit whose reply was lost took effect, so such a commit is retried;
    /// outcome_unknown is thrown when no attempt can find it out.
    void failed(const std::exception_ptr &problem, bool can_verify_commit = false);
    /// The same for an outcome that is not an exception; throws `give_up` when attempts or time are used up.
    void conflicted(const std::string &sqlstate, const std::string &message, const std::exception_ptr &give_up);

    /// The first step found that no earlier attempt committed or still holds anything.
    void earlier_attempts_rolled_back() noexcept { connection_lost_ = commit_unknown_ = false; }
    /// Whether a connection broke during COMMIT, and the outcome is unknown.
    bool commit_unknown() const noexcept { return commit_unknown_; }
    /// For steps that never wait and found another holder. After a lost connection that holder may be the flow's own earlier
    /// transaction: pauses and returns true, until recovery_wait or the policy's deadline has passed. Else returns false.
    bool wait_for_lost_transaction();
    /// How long to wait for another holder where the caller would wait for `asked`.
    wait_limit wait(wait_limit asked) const;

  private:
    void open(const std::vector<command> &first);

    client &db_;
    const flow_options &options_;
    retry_policy retry_;
    retry_loop loop_;
    subject about_;
    std::unique_ptr<transaction> tx_;
    std::optional<std::chrono::steady_clock::time_point> waiting_since_;
    bool committing_ = false;
    bool connection_lost_ = false; // its backend may still hold locks
    bool commit_unknown_ = false;
};

template <typename F> constexpr bool is_work = std::is_invocable_v<F &, transaction &>;

/// Runs `attempt(flow &)` until it returns, or fails with an error that is not retried. The attempt may set
/// `can_verify_commit`.
template <typename F>
auto run_flow(client &db, const flow_options &options, F &&attempt, const bool &can_verify_commit = false) {
    flow run(db, options);
    for (;;) {
        try {
            return attempt(run);
        } catch (...) {
            run.failed(std::current_exception(), can_verify_commit);
        }
    }
}

/// Sends the step together with BEGIN; `read` converts its answer to a result. If the result is true, work(transaction &,
/// result) runs and everything commits. Else the transaction is rolled back.
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
/// rolled back and the caller receives the exception.
///
/// Runs again, on a new connection if necessary, after a serialization failure or a deadlock (40001, 40P01, of a statement or
/// of COMMIT) and when the connection broke before COMMIT was sent; as often as the retry policy says. So `work` may run more
/// than once, and commits at most once: effects outside the database belong in `leased`.
///
/// Two round trips in addition to those of the work.
///
/// Throws outcome_unknown when the connection broke during COMMIT: a plain transaction leaves nothing that shows its outcome.
/// If that matters, use `once`. Throws rolled_back when COMMIT was answered with ROLLBACK, transient or connection_lost (or
/// libpqxx's exception for them) when the attempts are used up, and everything that `work` throws.
///
///     std::string total = idem::transact(db, [&](idem::transaction &tx) {
///         tx.exec("UPDATE …");
///         return std::string(tx.exec("SELECT …")[0][0].c_str());
///     });
template <typename F> auto transact(client &db, const flow_options &options, F &&work) {
    static_assert(detail::is_work<F>, "work is called as work(idem::transaction &)");
    return detail::run_flow(db, options, [&](detail::flow &run) {
        run.begin();
        return run.commit_after(work, run.tx());
    });
}
template <typename F> auto transact(client &db, F &&work) { return transact(db, flow_options{}, std::forward<F>(work)); }

} // namespace idem
