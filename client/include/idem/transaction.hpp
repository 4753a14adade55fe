// The transaction that flows pass to their callables.
#pragma once

#include <idem/pqxx_compat.hpp>

#include <memory>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/statement.hpp>

namespace idem {

enum class isolation { read_committed, repeatable_read, serializable };

/// An open transaction on a connection of a client's pool, with everything that pqxx::dbtransaction offers (exec,
/// subtransactions, quoting …). The flow that opened it commits it. A callable that calls commit() gets pqxx::usage_error.
/// After abort() the flow cannot commit any more. After a COMMIT or ROLLBACK that was run as a statement, the flow throws
/// pqxx::usage_error.
///
/// BEGIN is sent with the flow's first statement, and COMMIT with its last one (libpq's pipeline mode): neither costs a round
/// trip of its own.
///
/// Not thread-safe. Destroying it rolls back, without waiting for the server's answer.
class transaction final : public managed_transaction {
  public:
    ~transaction() override;

    /// Whether the connection is broken.
    bool lost() const noexcept;

  private:
    friend struct detail::access;

    /// Opens it on a connection of the pool and runs `first`, in one round trip.
    transaction(client &db, isolation level, const std::vector<detail::command> &first);
    transaction(detail::pooled_session taken, client &db, isolation level, const std::vector<detail::command> &first);

    /// Runs one of the library's statements in this transaction.
    detail::rows call(const detail::command &command);
    /// Runs `last` and commits, in one round trip. Returns the answers to `last`. Throws rolled_back when COMMIT was answered
    /// with ROLLBACK, and outcome_unknown when the connection broke before the answer.
    std::vector<detail::rows> finish(const std::vector<detail::command> &last = {});

    void throw_if_ended() const;
    void commit_now() override;
    void abort_now() override;

    client &db_;
    detail::pooled_session session_;
    std::vector<detail::rows> opening_;
    std::vector<detail::rows> closing_;
    const std::vector<detail::command> *last_ = nullptr;
    bool open_ = true; // on the server
};

} // namespace idem
