// Renews leases and locks in the background: one connection per client, however many are held.
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

#include "lease_clock.hpp"

namespace idem::detail {

class client_state;
class session;

/// What is held, as its holder came by it.
struct holding {
    enum class kind { key, lock } what = kind::key;
    std::string name;
    std::string scope;
    std::string owner; // the nonce
    std::int64_t fence = 0;
    std::optional<duration> lease;      // to ask for; nothing: the scope's
    duration granted{};                 // what the server gave, …
    lease_clock::time_point granted_at; // … when it was asked, at the latest

    subject about() const { return {name, scope}; }
};

/// Something held and renewed. What is not const is guarded by the heart's mutex.
struct beat {
    explicit beat(holding of) : held(std::move(of)) {}

    const holding held;
    const std::shared_ptr<stop_state> stop = std::make_shared<stop_state>();

    enum class state {
        live,
        completing, // idem_complete was called: from now on only the server knows
        lost,
        over // completed, released or unlocked: nothing about it is to be told any more
    } now = state::live;
    bool told = false;        // stop has been requested, or is about to be
    unsigned completions = 0; // odd while idem_complete is under way
    duration length{};        // of the lease, as granted last
    lease_clock::time_point valid_until;
    lease_clock::time_point next; // renewal
};

/// A lease is renewed after a third of its length. It is lost when the server says so, or when its length has passed since the
/// last renewal that succeeded was sent: by then others may hold it, whatever the server will say. Who has lost a lease is
/// told once, through `stop`.
///
/// Two threads, started with the first lease: one renews, and may hang in the network; the other looks at the clock and tells
/// who has lost, so that no hanging, and no callback, keeps others from being told or renewed. Neither lets an exception out.
///
/// A renewal waits but briefly for a row lock (lock_timeout): its holder's own transaction, with idem_complete in it, may keep
/// it locked for long.
///
/// Thread-safe. No member waits for the network, but the destructor, for up to some seconds. The last reference to a client
/// may go in a stop callback.
class heart {
  public:
    explicit heart(client_state &owner);
    ~heart();

    /// Throws error (53000) when a thread cannot be started.
    std::shared_ptr<beat> start(holding of);
    /// It is no longer held, or no longer to be: nothing about it will be told that is not being told already.
    void finish(beat &of) noexcept;

    bool lost(beat &of) noexcept;
    /// The server said so to somebody else than us.
    void lose(beat &of) noexcept;
    duration time_left(beat &of) noexcept;

    /// Around idem_complete. False: the lease is lost.
    bool begin_completion(beat &of) noexcept;
    /// `may_hold`: it was called in a transaction that may commit, or how it ended is not known.
    void end_completion(beat &of, bool may_hold) noexcept;

  private:
    struct rhythm;

    std::shared_ptr<rhythm> rhythm_;
};

/// The statement that renews, for those who need a fresh lease before they go on.
command renew_command(const holding &held);
/// What it answered: the lease that is left, or nothing when it is lost.
std::optional<duration> renewed(const rows &answer, const holding &held);

} // namespace idem::detail
