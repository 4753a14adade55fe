// What can go wrong, as one hierarchy. Each error carries its SQLSTATE and, where one is concerned, the key (or lock name) and
// its scope.
//
//   error
//   ├─ stale_fence          ID001  somebody else holds the key or the lock by now; what this transaction wrote is rolled back
//   │  └─ lease_lost        ID001  the same of what the client renews, also when it could not in time
//   ├─ mismatch             ID002  the key was used before with another request (the client's own code)
//   ├─ not_allowed          ID003  the state machine lacks this transition
//   ├─ stale_version        ID004  the row has another version by now
//   ├─ in_flight            ID005  another holder is not done; retry_after() says when to ask again
//   ├─ in_doubt             ID005  a holder vanished, and the scope leaves the decision to an operator
//   ├─ busy                 55P03  a lock is held: a row's, or a lease lock
//   ├─ not_found            P0002  there is no such row
//   ├─ transient            40001, 40P01: run again and it will pass; thrown when the retries are used up
//   ├─ connection_lost      08*, 57P01…: the connection broke, and nothing had been committed
//   ├─ outcome_unknown      08007  the connection broke while a commit was under way, and no key says how it ended
//   ├─ rolled_back          25P02  COMMIT was answered with ROLLBACK: an error inside the transaction had been swallowed
//   ├─ pool_exhausted       53300  no connection of the pool became free in time
//   ├─ not_installed        3F000, 42883: the extension, or the function asked for, is missing from this database
//   ├─ denied               42501  privileges
//   ├─ read_only            25006  a standby or a READ ONLY transaction
//   ├─ cancelled            57014  the statement was cancelled, by a user or by statement_timeout
//   └─ bad_input            22*, 23*, 42*: a request that can never succeed
//
// Errors of the caller's own statements are not translated: they arrive as the exceptions of libpqxx that they are.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace idem {

/// What an error is about.
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
    in_flight(std::string sqlstate, const std::string &message, subject about = {}, std::chrono::milliseconds retry_after = {});

    /// What is left of the holder's lease; zero when the holder has none (its transaction is open) or it is not known.
    std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }

  private:
    std::chrono::milliseconds retry_after_;
};

/// Throws the member of the hierarchy that stands for this SQLSTATE; `error` itself for one that has none.
[[noreturn]] void throw_error(const std::string &sqlstate, const std::string &message, subject about = {});

} // namespace idem
