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

class heart;

/// A statement as one database knows it.
struct named_text {
    std::string name; // under which it is prepared
    std::string text;
};

/// Thread-safe.
class client_state {
  public:
    explicit client_state(client_options options);
    ~client_state();

    const client_options &options() const noexcept { return options_; }
    /// A connection of the pool, opened if need be. Throws pool_exhausted, connection_lost.
    session_lease take();
    void give_back(std::unique_ptr<session> used) noexcept;
    /// After a connection broke, those that lie idle are likely broken too.
    void drop_idle() noexcept;

    /// Quoted. `on`: a connection to ask when it is not known yet.
    const std::string &schema(session &on);
    /// The same, empty while it is not known.
    std::string schema();
    /// The statement with @idem@ replaced; valid as long as this object.
    const named_text &resolve(const statement &what, session &on);
    /// The same if it is known without asking, else null.
    const named_text *resolved(const statement &what);

    bool prepares() const noexcept { return prepare_; }
    /// A pooler in transaction mode lost a prepared statement: do without from now on.
    void stop_preparing() noexcept { prepare_ = false; }

    /// Renews leases and locks; started when first asked for.
    heart &heartbeat();

  private:
    /// The one returned last; nothing: the caller may open one, and is to give back nothing when that fails.
    std::unique_ptr<session> take_idle();

    client_options options_;
    std::atomic<bool> prepare_;

    std::mutex pool_lock_; // guards idle_, open_
    std::condition_variable returned_;
    std::vector<std::unique_ptr<session>> idle_;
    std::size_t open_ = 0; // idle and in use

    std::mutex names_lock_; // guards schema_, texts_; never held during a round trip
    std::string schema_;
    std::unordered_map<const statement *, std::unique_ptr<const named_text>> texts_;

    std::mutex heart_lock_;
    std::unique_ptr<heart> heart_; // destroyed first: it uses the rest
};

} // namespace idem::detail
