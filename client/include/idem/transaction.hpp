// The transaction that flows hand to their callables.
#pragma once

#include <idem/pqxx_compat.hpp>

#include <memory>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/statement.hpp>

namespace idem {

enum class isolation { read_committed, repeatable_read, serializable };

/// An open transaction on a connection of a client's pool; everything that pqxx::dbtransaction can do (exec, subtransactions,
/// quoting …) is there. The flow that opened it commits it: commit() of the callable's own is refused with pqxx::usage_error,
/// and after abort() the flow cannot commit any more; nor, with pqxx::usage_error, after a COMMIT or ROLLBACK that was run as a
/// statement.
///
/// BEGIN travels with the flow's first statement, and COMMIT with its last (libpq's pipeline mode): neither costs a round trip
/// of its own.
///
/// Not thread-safe. Destroying it rolls back, without waiting for the server's answer.
class transaction final : public detail::adopted_transaction {
  public:
    /// Opens it on a connection of the pool and runs `first`, in one round trip.
    transaction(client &db, isolation level, const std::vector<detail::command> &first);
    ~transaction() override;

    /// What the statements of the constructor returned.
    const std::vector<detail::rows> &opening() const noexcept { return opening_; }
    /// Whether the connection is broken.
    bool lost() const noexcept;
    /// One statement of idem's inside this transaction.
    detail::rows call(const detail::command &command);
    /// Runs `last` and commits, in one round trip; returns what `last` returned. Throws rolled_back when COMMIT was answered
    /// with ROLLBACK, and outcome_unknown when the connection broke before the answer.
    std::vector<detail::rows> finish(const std::vector<detail::command> &last = {});

  private:
    transaction(detail::session_lease lease, client &db, isolation level, const std::vector<detail::command> &first);

    void refuse_if_ended() const;
    void commit_now() override;
    void abort_now() override;

    client &db_;
    detail::session_lease session_;
    std::vector<detail::rows> opening_;
    std::vector<detail::rows> closing_;
    const std::vector<detail::command> *last_ = nullptr;
    bool open_ = true; // on the server
};

} // namespace idem
