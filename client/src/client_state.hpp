// What all copies of a client share: options, pool, the extension's schema, the heartbeat.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <idem/client.hpp>
#include <idem/statement.hpp>

#include "session.hpp"

namespace idem::detail {

class heartbeat;

/// A statement with the schema's name in it.
struct resolved_statement {
    std::string name; // of the prepared statement
    std::string text;
};

/// Thread-safe.
class client_state {
  public:
    explicit client_state(client_options options);
    ~client_state();

    const client_options &options() const noexcept { return options_; }
    /// A connection of the pool, opened if none is idle. Throws pool_exhausted, connection_lost.
    pooled_session take();
    void give_back(std::unique_ptr<session> used) noexcept;
    /// Closes all idle connections. To be called when a connection broke: the idle ones are probably broken too.
    void drop_idle() noexcept;

    /// Before a wait in the server, which takes a connection for its time. False: the caller does not wait, but asks again and
    /// again, because one connection is left for the holder whose completion or unlock ends the waits.
    bool begin_wait() noexcept;
    void end_wait() noexcept { --waits_; }

    /// Quoted. Looked up on the connection `on` when it is not known yet.
    const std::string &schema(session &on);
    /// The same; empty while it is not known.
    std::string schema();
    /// The statement with @idem@ replaced by the schema. The reference is valid as long as this object.
    const resolved_statement &resolve(const statement &what, session &on);
    /// The same, or null if the server would have to be asked.
    const resolved_statement *resolved(const statement &what);

    bool prepares() const noexcept { return prepare_; }
    /// From now on statements are sent as text: a pooler in transaction mode lost a prepared one.
    void stop_preparing() noexcept { prepare_ = false; }

    /// Created by the first call.
    heartbeat &shared_heartbeat();

  private:
    /// The idle session that was returned last. Null: the caller may open one, and calls give_back(nullptr) when that fails.
    std::unique_ptr<session> take_idle();

    client_options options_;
    std::atomic<bool> prepare_;
    std::atomic<std::size_t> waits_{0};

    std::mutex pool_lock_; // guards idle_, open_
    std::condition_variable returned_;
    std::vector<std::unique_ptr<session>> idle_;
    std::size_t open_ = 0; // idle and in use

    std::mutex names_lock_; // guards schema_, texts_; never held during a round trip
    std::string schema_;
    std::unordered_map<const statement *, std::unique_ptr<const resolved_statement>> texts_;

    std::mutex heartbeat_lock_;
    std::unique_ptr<heartbeat> heartbeat_; // destroyed first: it uses the other members
};

} // namespace idem::detail
