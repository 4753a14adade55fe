// The way to the database: options, and a bounded pool of connections.
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
    /// Bound of the pool. One more connection is opened, and kept, while leases or locks are renewed in the background.
    std::size_t max_connections = 16;
    /// How long a flow waits for a connection of the pool before pool_exhausted.
    std::chrono::milliseconds connection_wait{30'000};
    /// How long to try to connect; 0: as the connection string says.
    std::chrono::seconds connect_timeout{10};
    /// Statements are prepared once per connection. Behind a pooler in transaction mode that does not carry them over the
    /// client notices, runs the attempt again and stops preparing; false spares it the discovery.
    bool prepare = true;
    /// The name, not quoted, of the schema that the extension lives in; empty: looked up once.
    std::string schema;
    /// For all flows that are not given one of their own.
    retry_policy retry;
    /// Called once for every new connection, to prepare statements of the caller's own; what it throws ends the flow that
    /// wanted the connection.
    std::function<void(connection &)> on_connect;
    /// Told of the server's notices and warnings (without the final line break); called by the thread whose call raised them.
    std::function<void(const std::string &severity, const std::string &message)> on_notice;
};

namespace detail {
class client_state;
}

/// Connections are opened when first needed, at most max_connections of them, and reused, the last returned first. One that
/// broke is thrown away.
///
/// Thread-safe: one client serves a whole program. It must outlive every flow, lease and lock that uses it. Copies are cheap
/// and share the pool.
class client {
  public:
    /// Does not connect. Throws bad_input when max_connections or retry.attempts is 0.
    explicit client(client_options options = {});
    /// The same with nothing but a connection string.
    explicit client(const std::string &dsn);

    const client_options &options() const noexcept;
    /// The quoted schema of the extension. Connects when it is not known yet; throws not_installed.
    std::string schema();

    detail::client_state &state() const noexcept { return *state_; }

  private:
    std::shared_ptr<detail::client_state> state_;
};

} // namespace idem
