// Where a call runs: in a transaction of its own, or in one that is open.
#pragma once

#include <string>

#include <idem/client.hpp>
#include <idem/statement.hpp>
#include <idem/transaction.hpp>

namespace idem {

namespace detail {

/// One statement as a transaction of its own, in one round trip; not retried. Throws outcome_unknown when the reply was lost
/// and the statement cannot simply be repeated, connection_lost when it can or was never sent.
rows call_alone(client &db, const command &command);

} // namespace detail

/// Every function of the library that is a single call takes a target, and converts to it from
///  - a client: the call is a transaction of its own, in one round trip; serialization failures and deadlocks are retried by
///  the client's policy, and a
///    lost connection too where running twice does what running once does. Else outcome_unknown: put the call into `once` to
///    have it exactly once;
///  - a transaction that a flow handed to its callable: the call commits and rolls back with it, and is not retried by itself.
///
/// A transaction of the caller's own, of libpqxx alone, is a target as well, but says so: target{db, tx}, where the client
/// tells no more than the schema of the extension.
///
/// Holds references; make it where it is used.
class target {
  public:
    target(client &db) : db_(&db) {}
    target(transaction &tx) : own_(&tx) {}
    target(client &db, pqxx::transaction_base &tx) : db_(&db), foreign_(&tx) {}

    /// Whether the call commits or rolls back with a transaction that is open.
    bool in_transaction() const noexcept { return own_ != nullptr || foreign_ != nullptr; }

    detail::rows call(const detail::command &command) const;

  private:
    client *db_ = nullptr;
    transaction *own_ = nullptr;
    pqxx::transaction_base *foreign_ = nullptr;
};

} // namespace idem
