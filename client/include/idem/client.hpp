// The client: options, and a bounded pool of connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <idem/pqxx_compat.hpp>
#include <idem/retry.hpp>

namespace idem {

struct client_options {
    /// A libpq connection string or URI; empty: libpq's environment (PGHOST, PGDATABASE, …).
    std::string dsn;
    /// The limit of the pool. The heartbeat of leases and locks uses one more connection while any is held.
    std::size_t max_connections = 16;
    /// How long a flow waits for a connection of the pool before it throws pool_exhausted.
    std::chrono::milliseconds connection_wait{30'000};
    /// The time limit of connecting; 0: that of the connection string.
    std::chrono::seconds connect_timeout{10};
    /// Whether statements are prepared, once per connection. Behind a pooler in transaction mode that does not support prepared
    /// statements, the client detects that, retries the attempt and stops preparing; false avoids the failed attempt.
    bool prepare = true;
    /// The unquoted name of the extension's schema; empty: looked up once. The portable edition is found where one role owns
    /// the schema and the functions. Name the schema where a role that you do not trust may create schemas.
    std::string schema;
    /// The default of all flows.
    retry_policy retry;
    /// Called once for each new connection, for example to prepare the caller's statements. An exception from it ends the flow
    /// that needs the connection.
    std::function<void(connection &)> on_connect;
    /// Called with each notice and warning of the server (without the final line break), by the thread whose call raised it.
    /// Its exceptions are dropped.
    std::function<void(const std::string &severity, const std::string &message)> on_notice;
};

namespace detail {
class client_state;
struct access;
} // namespace detail

/// Connections are opened when needed, at most max_connections, and reused: the one returned last is taken first. Broken ones
/// are discarded.
///
/// Thread-safe: one client serves a whole program. It must outlive every flow, lease and lock that uses it. Copies are cheap
/// and share the pool.
class client {
  public:
    /// Does not connect. Throws bad_input when max_connections or retry.attempts is 0.
    explicit client(client_options options = {});
    /// The same with the default options and a connection string.
    explicit client(const std::string &dsn);

    const client_options &options() const noexcept;
    /// The quoted schema of the extension, or of the portable edition. Connects when it is not known yet; throws not_installed,
    /// and bad_input (42725) when several schemas have the portable edition.
    std::string schema();

  private:
    friend struct detail::access;

    std::shared_ptr<detail::client_state> state_;
};

} // namespace idem
