// The server of the client's tests, and ways to observe it. libpq's environment names it (scripts/cluster.sh env NAME); the
// extension is installed into its schema idem. Without PGHOST every test is skipped.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <idem/client.hpp>
#include <idem/pqxx_compat.hpp>

namespace test {

/// Of the server: empty, which is libpq's environment.
std::string dsn();

/// Of idem on the server: "c" or "portable". Private servers have the same.
const std::string &edition();

/// A client of the server, unless the options name another. The options do not name the extension's schema.
idem::client make_client(idem::client_options options = {});

/// A key (or name) that no other test and no other run has.
std::string unique_key(const std::string &prefix = "key");

/// Runs SQL on a new connection, without the library, and returns the first field: empty for NULL and for no row.
std::string ask(const std::string &sql, const std::vector<std::optional<std::string>> &values = {},
                const std::string &at = dsn());

/// A visible effect of work: a row under this key, in a table with no unique constraint, so that a second one shows.
void leave_effect(pqxx::transaction_base &tx, const std::string &key);
/// How many of them have committed.
int effects(const std::string &key, const std::string &at = dsn());

/// ask() and effects() on one connection, which no test breaks: for observations that are repeated often. Thread-safe.
class observer {
  public:
    std::string ask(const std::string &sql, const std::vector<std::optional<std::string>> &values = {});
    int effects(const std::string &key);

  private:
    std::mutex lock_;
    pqxx::connection db_{dsn()};
};

/// Creates the extension and the tables of the tests where they are missing.
void prepare_database(const std::string &at);

/// Polls a condition that no event announces. False: it did not hold in time.
bool eventually(const std::function<bool()> &holds, std::chrono::milliseconds timeout = std::chrono::seconds(20));

/// A lease that a test needs to be renewed. A renewal is due after a third of it, so a busy machine has four seconds to send
/// it, also in a new session.
constexpr std::chrono::milliseconds kRenewedLease{6000};
/// After this it would be over, had it not been renewed.
constexpr std::chrono::milliseconds kOverOneLease = kRenewedLease + std::chrono::milliseconds(600);

/// The least of up to three measurements of a delay: the machine delays some, and a defect delays each. Stops at one below the
/// bound.
std::chrono::milliseconds least_delay(std::chrono::milliseconds bound,
                                      const std::function<std::chrono::milliseconds()> &measure);

/// Skips a test of what the portable edition has not.
#define NEEDS_C_EDITION(REASON)                                                                                                \
    if (test::edition() != "c")                                                                                                \
    GTEST_SKIP() << "the portable edition " << (REASON)

/// Runs a program as the user that may run a server, waits for it, and returns its exit status.
int run_as_server(const std::vector<std::string> &command);
/// The directory of the server's programs.
std::string server_programs();

/// A server for one test, which may stop, restart and crash it; prepared like the shared one. It lives inside the shared
/// cluster's directory, and is removed with it.
class private_server {
  public:
    explicit private_server(const std::vector<std::string> &settings = {});
    ~private_server();
    private_server(const private_server &) = delete;
    private_server &operator=(const private_server &) = delete;

    std::string dsn() const;
    /// Of its socket; the port is 5432.
    const std::string &directory() const noexcept { return directory_; }
    void start();
    /// smart, fast or immediate.
    void stop(const std::string &mode = "fast");
    void restart(const std::string &mode = "fast");
    /// Drops idem with all that depends on it, and installs it again.
    void reinstall();

  private:
    /// Bash with the functions of scripts/lib.sh, and this server in the environment.
    void script(const std::string &commands) const;

    std::string directory_;
};

} // namespace test
