// What the tests of flows over rows share: tables of their own under awkward names, and ways to disturb a transaction at a
// chosen moment.
#pragma once

#include <future>
#include <memory>
#include <string>

#include <idem/transaction.hpp>

#include "server.hpp"

namespace test {

/// Rows 1 and 2 of a table that every flow can work on, gone with the object: versioned, with a machine new -> paid -> sent on
/// "state", a unique sku and an index on kind. Schema, table and one column have names that need quoting.
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
    std::string look(const std::string &column, int id) const;
    std::string count() const;
    /// Makes the rows what they were at first; waits for transactions that have changed them.
    void reset(pqxx::transaction_base &in) const;

  private:
    std::string insert() const;

    std::string table_, machine_;
};

/// The name of the column that needs quoting, and as a member of JSON.
extern const char *const kOddColumn;
extern const char *const kOddMember;

/// Ends the backend of this transaction; libpq finds out with the next statement or, with `noticed`, now (throws).
void terminate(idem::transaction &tx, bool noticed);
/// COMMIT of this transaction arrives, and no answer comes back: waits in the middle of COMMIT until the connection is shut.
/// Keep what it returns until the flow has ended.
std::future<void> deafen_at_commit(idem::transaction &tx);

/// A rival that holds row 2 of a table and waits for row 1, which somebody else holds: whoever holds row 1 and asks for row 2
/// now is in a deadlock, and is the one that the server picks.
class rival {
  public:
    explicit rival(const std::string &table);

  private:
    pqxx::connection db_;
    std::unique_ptr<pqxx::work> tx_;
    std::future<void> waiting_; // destroyed, and so waited for, first
};

} // namespace test
