// How often and how fast a flow is retried, and for how long.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include <idem/standard.hpp>

namespace idem {

/// Passed to on_retry before each new attempt. `sqlstate` is 08006 for a connection that broke without an error message.
struct retry_event {
    int attempt;                     ///< the attempt that failed, from 1
    std::string sqlstate;            ///< of the error
    std::string message;             ///< of the error
    std::chrono::milliseconds pause; ///< before the next attempt
};

/// Serialization failures, deadlocks, lost connections and (in optimistic flows) conflicts are retried; a mismatch, a
/// transition that is not allowed, a stale fence and bad input never are.
///
/// The pause before attempt n + 1 is random between 0 and min(longest_pause, first_pause * 2^(n-1)) ("full jitter", Brooker,
/// AWS Architecture Blog, 2015), so that callers that collided once do not collide again.
struct retry_policy {
    int attempts = 10; ///< the first one included; at least 1
    std::chrono::milliseconds first_pause{5};
    std::chrono::milliseconds longest_pause{1000};
    std::optional<std::chrono::milliseconds> deadline; ///< no attempt begins later than this after the start
    /// Called by the thread that runs the flow. An exception from it ends the flow.
    std::function<void(const retry_event &)> on_retry;
};

/// The retry loop of a flow. Not thread-safe.
///
///     for (retry_loop loop{policy};;) {
///       try { return attempt(); }
///       catch (...) { loop.failed(std::current_exception()); }
///     }
class retry_loop {
  public:
    /// Reads `policy` at each failure; `policy` must outlive the loop.
    explicit retry_loop(const retry_policy &policy);

    /// Pauses and returns when the error may be retried and attempts and time are left; else rethrows it. REQUIRES: no
    /// transaction is open. `can_verify_commit`: the flow finds out by itself whether a commit whose reply was lost took
    /// effect, so such a commit is retried.
    void failed(const std::exception_ptr &error, bool can_verify_commit = false);
    /// The same for a conflict that is not an exception; throws `give_up` when attempts or time are used up.
    void conflicted(const std::string &sqlstate, const std::string &message, const std::exception_ptr &give_up);

    int attempt() const noexcept { return attempt_; }
    /// Time until the deadline; nothing when there is none.
    std::optional<std::chrono::milliseconds> time_left() const;

  private:
    void pause_or_throw(const std::exception_ptr &give_up, const std::string &sqlstate, const std::string &message);

    const retry_policy &policy_;
    std::chrono::steady_clock::time_point start_;
    int attempt_ = 1;
};

/// What an exception means for a retry.
enum class verdict {
    final,           ///< running again would not help
    transient,       ///< 40001, 40P01
    connection_lost, ///< nothing was committed
    commit_unknown   ///< the connection broke while a commit was under way
};

/// Classifies exceptions of idem and of libpqxx. `sqlstate` and `message` (each may be null) receive those of the exception.
verdict judge(const std::exception_ptr &error, std::string *sqlstate = nullptr, std::string *message = nullptr);

} // namespace idem
