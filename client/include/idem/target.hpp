// Where a call runs: in its own transaction, or in an open one.
#pragma once

#include <string>

#include <idem/client.hpp>
#include <idem/statement.hpp>
#include <idem/transaction.hpp>

namespace idem {

namespace detail {

/// Runs one statement as a transaction of its own, in one round trip, without retries. A lost connection throws outcome_unknown
/// when the statement was sent and is not repeatable, else connection_lost.
rows call_alone(client &db, const command &command);

} // namespace detail

/// The parameter of every function that is a single call. Implicitly constructed from
///
///  - a client: the call is a transaction of its own, in one round trip. The client's policy retries serialization failures
///    and deadlocks. It also retries a lost connection if repeating the call has the same effect as one call. Otherwise a
///    lost reply throws outcome_unknown; `once` makes such a call happen exactly once;
///  - the transaction that a flow passes to its callable: the call commits and rolls back with it, without retries.
///
/// The caller's own libpqxx transaction is a target too: target{db, tx}. The client then only supplies the extension's schema.
///
/// Holds references: construct it where it is used.
class target {
  public:
    target(client &db) : db_(&db) {}
    target(transaction &tx) : own_(&tx) {}
    target(client &db, pqxx::transaction_base &tx) : db_(&db), foreign_(&tx) {}

    /// Whether the call runs in an open transaction, and commits or rolls back with it.
    bool in_transaction() const noexcept { return own_ != nullptr || foreign_ != nullptr; }

  private:
    friend struct detail::access;

    detail::rows call(const detail::command &command) const;

    client *db_ = nullptr;
    transaction *own_ = nullptr;
    pqxx::transaction_base *foreign_ = nullptr;
};

} // namespace idem
