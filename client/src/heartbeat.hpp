// Renews leases of keys and of locks in the background: one connection per client, however many are held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <idem/request.hpp>
#include <idem/statement.hpp>
#include <idem/stop_token.hpp>

#include "lease_term.hpp"

namespace idem::detail {

class client_state;
class session;

/// A lease as the server granted it.
struct granted_lease {
    enum class resource_kind { key, lock } resource = resource_kind::key;
    std::string name;
    std::string scope;
    std::string owner; // the nonce
    std::int64_t fence = 0;
    std::optional<duration> wanted; // the length to ask for; nothing: the scope's
    duration length{};              // as granted

    subject about() const { return {name, scope}; }
};

/// A lease that the heartbeat renews. The heartbeat's mutex guards all members that are not const.
struct renewed_lease {
    renewed_lease(granted_lease from, lease_term held) : grant(std::move(from)), term(held) {}

    const granted_lease grant;
    const std::shared_ptr<stop_state> stop = std::make_shared<stop_state>();

    lease_term term;
    enum class status {
        live,
        completing, // idem_complete was called: only the server knows whether the key is still held
        ended       // completed, released or unlocked: a loss is no longer signalled
    } current = status::live;
    bool signalled = false;   // stop has been requested, or is about to be
    unsigned completions = 0; // odd while a call of idem_complete is under way
};

/// Renews each lease after a third of its length. A lease is lost when the server says so, or when its length has passed since
/// the last successful renewal was sent: another caller may hold it from then on, whatever the server answers later. A loss is
/// signalled once, through `stop`.
///
/// Two threads start with the first lease. The renewer may hang in the network. The signaller watches the clock and requests
/// stops, so that neither a hanging connection nor a slow callback delays the signals and renewals of other leases. No
/// exception leaves either thread.
///
/// A renewal waits only briefly for a row lock (lock_timeout): the holder's own transaction, in which idem_complete was called,
/// may keep the row locked for long.
///
/// Thread-safe. No member waits for the network, except the destructor: for up to some seconds. A stop callback may destroy the
/// last reference to a client.
class heartbeat {
  public:
    explicit heartbeat(client_state &client);
    ~heartbeat();

    /// Throws error (53000) when a thread cannot be started.
    std::shared_ptr<renewed_lease> add(granted_lease grant, lease_term term);
    /// The lease has ended, or is given up. A loss is not signalled after this, unless a signal is already under way.
    void remove(renewed_lease &lease) noexcept;

    bool is_lost(renewed_lease &lease) noexcept;
    /// Whether the server has said that the lease is lost.
    bool is_stale(renewed_lease &lease) noexcept;
    /// To be called when a statement other than a renewal failed with a stale fence.
    void mark_lost(renewed_lease &lease) noexcept;
    duration time_left(renewed_lease &lease) noexcept;

    /// To be called before idem_complete. False: the fence is stale. A lease that is merely expired may be completed.
    bool begin_completion(renewed_lease &lease) noexcept;
    /// To be called after idem_complete. `may_take_effect`: it ran in a transaction that may still commit, or its outcome is
    /// unknown.
    void end_completion(renewed_lease &lease, bool may_take_effect) noexcept;

  private:
    struct shared_state;

    void signal(renewed_lease &lease) noexcept;

    std::shared_ptr<shared_state> shared_;
};

/// The statement that renews a lease.
command renew_command(const granted_lease &lease);
/// Its answer: the time left, or nothing when the lease is lost.
std::optional<duration> time_granted(const rows &answer, const granted_lease &lease);

} // namespace idem::detail
