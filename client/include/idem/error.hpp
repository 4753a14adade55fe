// The hierarchy of errors. Each has its SQLSTATE and, where one is concerned, the key (or the lock's name) and its scope.
//
//   error
//   ├─ stale_fence          ID001  another caller holds the key or the lock by now; this transaction must be rolled back
//   │  └─ lease_lost        ID001  the same for a lease that the client renews, also when it was not renewed in time
//   ├─ mismatch             ID002  the key was used before with another request (a code of the client's own)
//   ├─ not_allowed          ID003  the state machine lacks this transition
//   ├─ stale_version        ID004  the row has another version by now
//   ├─ in_flight            ID005  another holder is not done; retry_after() says when to retry
//   ├─ in_doubt             ID005  a holder vanished, and the scope's policy leaves the decision to an operator
//   ├─ done_before          ID006  the key's work has committed, from must_claim
//   ├─ busy                 55P03  a row lock or a lease lock is held by another caller
//   ├─ not_found            P0002  there is no such row
//   ├─ transient            40001, 40P01: a retry may succeed; thrown when the retries are used up
//   ├─ connection_lost      08*, 57P01…: the connection broke, and nothing was committed
//   ├─ outcome_unknown      08007  the connection broke during a commit, and no key shows the outcome
//   ├─ response_unstored    25000  http_complete: the scope does not store responses with this status; roll back, then send it
//   ├─ rolled_back          25P02  COMMIT was answered with ROLLBACK: an error inside the transaction was ignored
//   ├─ pool_exhausted       53300  no connection of the pool became free in time
//   ├─ not_installed        3F000, 42883: the extension, or the called function, is missing from this database
//   ├─ denied               42501  a privilege is missing
//   ├─ read_only            25006  a standby or a READ ONLY transaction
//   ├─ cancelled            57014  the statement was cancelled, by a user or by statement_timeout
//   └─ bad_input            22*, 23*, 42*, 25P01: a request that can never succeed
//
// Errors of the caller's own statements are not translated: they remain libpqxx's exceptions.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include <idem/standard.hpp>

namespace idem {

/// The key that an error concerns.
struct subject {
    std::string key{};
    std::string scope{};
};

/// Base of everything that idem throws. Copying does not throw.
class error : public std::runtime_error {
  public:
    error(std::string sqlstate, const std::string &message, subject about = {});

    const std::string &sqlstate() const noexcept { return details_->sqlstate; }
    const std::string &key() const noexcept { return details_->about.key; }
    const std::string &scope() const noexcept { return details_->about.scope; }

  private:
    struct details {
        std::string sqlstate;
        subject about;
    };
    std::shared_ptr<const details> details_;
};

struct stale_fence : error {
    using error::error;
};
struct lease_lost : stale_fence {
    using stale_fence::stale_fence;
};
struct mismatch : error {
    using error::error;
};
struct not_allowed : error {
    using error::error;
};
struct stale_version : error {
    using error::error;
};
struct in_doubt : error {
    using error::error;
};
struct busy : error {
    using error::error;
};
struct not_found : error {
    using error::error;
};
struct transient : error {
    using error::error;
};
struct connection_lost : error {
    using error::error;
};
struct outcome_unknown : error {
    using error::error;
};
struct response_unstored : error {
    using error::error;
};
struct rolled_back : error {
    using error::error;
};
struct pool_exhausted : error {
    using error::error;
};
struct not_installed : error {
    using error::error;
};
struct denied : error {
    using error::error;
};
struct done_before : error {
    using error::error;
};
struct read_only : error {
    using error::error;
};
struct cancelled : error {
    using error::error;
};
struct bad_input : error {
    using error::error;
};

class in_flight : public error {
  public:
    in_flight(std::string sqlstate, const std::string &message, subject about = {},
              std::optional<std::chrono::milliseconds> retry_after = {});

    /// The rest of the holder's lease; nothing: unknown, or the holder has none (its transaction is open).
    std::optional<std::chrono::milliseconds> retry_after() const noexcept { return retry_after_; }

  private:
    std::optional<std::chrono::milliseconds> retry_after_;
};

/// Throws the class for this SQLSTATE; `error` itself if there is none.
[[noreturn]] void throw_error(const std::string &sqlstate, const std::string &message, subject about = {});

} // namespace idem
