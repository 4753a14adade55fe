// Shared by the tests of flows on rows: tables whose names need quoting, and ways to disturb a transaction at a given moment.
#pragma once

#include <future>
#include <memory>
#include <string>

#include <idem/transaction.hpp>

#include "server.hpp"

namespace test {

/// A table with rows 1 and 2 that every flow can work on, dropped by the destructor. It has a version, a machine
/// new -> paid -> sent on "state", a unique sku and an index on kind. The names of schema, table and one column need quoting.
class scratch {
  public:
    scratch();
    ~scratch();
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;

    /// Quoted, with schema.
    const std::string &table() const noexcept { return table_; }
    const std::string &machine() const noexcept { return machine_; }
    /// One column of one row, as text.
    std::string value_of(const std::string &column, int id) const;
    std::string count() const;
    /// Restores the original rows; waits for transactions that have changed them.
    void reset(pqxx::transaction_base &in) const;

  private:
    std::string insert() const;

    std::string table_, machine_;
};

/// The name of the column that needs quoting, and as a member of JSON.
extern const char *const kOddColumn;
extern const char *const kOddMember;

/// Ends the backend of this transaction. libpq notices that at the next statement or, with `noticed`, at once (throws).
void terminate(idem::transaction &tx, bool noticed);
/// The server executes COMMIT of this transaction, and the answer is lost: COMMIT blocks until the connection is shut down.
/// REQUIRES: the future outlives the flow.
std::future<void> lose_commit_reply(idem::transaction &tx);

/// Holds row 2 of a table and waits for row 1, which another session holds. If that session then asks for row 2, there is a
/// deadlock, and the server aborts that session.
class rival {
  public:
    explicit rival(const std::string &table);

  private:
    pqxx::connection db_;
    std::unique_ptr<pqxx::work> tx_;
    std::future<void> waiting_; // destroyed first, which waits for it
};

} // namespace test
