// The server that the client's tests run against, and what they look at it with. Where it is says libpq's environment
// (scripts/cluster.sh env NAME); the extension is put into its schema idem. Without PGHOST every test is skipped.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <idem/client.hpp>
#include <idem/pqxx_compat.hpp>

namespace test {

/// Of the server: empty, which is libpq's environment.
std::string dsn();

/// A client of the server, unless the options name another. The extension's schema is looked up, not given.
idem::client make_client(idem::client_options options = {});

/// A key (or name) that no other test and no other run has.
std::string unique_key(const std::string &prefix = "key");

/// Runs SQL on a connection of its own, past the library, and answers with the first field: empty for NULL and for no row.
std::string ask(const std::string &sql, const std::vector<std::optional<std::string>> &values = {},
                const std::string &at = dsn());

/// A visible effect of work: a row under this key, in a table with no unique constraint, so that a second one shows.
void leave_effect(pqxx::transaction_base &tx, const std::string &key);
/// How many of them have committed.
int effects(const std::string &key, const std::string &at = dsn());
/// Makes the extension and the table of effects where they are missing.
void prepare_database(const std::string &at);

/// Waits until it holds, for a condition that nothing announces; false when it does not in time.
bool eventually(const std::function<bool()> &holds, std::chrono::milliseconds longest = std::chrono::seconds(20));

/// Runs a program as the user that may run a server, and waits for it; its exit status.
int run_as_server(const std::vector<std::string> &command);
/// Where the server's programs are.
std::string server_programs();

/// A server of a test's own, which it may stop, restart and crash; ready for use like the shared one. It lives inside the
/// shared cluster's directory, so that nothing is left when that is removed.
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

  private:
    std::string directory_;
};

} // namespace test
