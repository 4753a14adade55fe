// Lease locks: mutual exclusion of threads, processes and hosts (docs/locks.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <idem/client.hpp>
#include <idem/error.hpp>
#include <idem/request.hpp>
#include <idem/stop_token.hpp>
#include <idem/target.hpp>

namespace idem {

struct lock_options {
    /// The space in which the name is unique.
    std::string scope;
    /// How long the holder may be silent before others may take over. Renewed after each third of it.
    duration ttl{30'000};
    /// lock(), with_lock(): how long to wait for another holder. Waiters are served in the order of their calls; each occupies
    /// a connection of the pool.
    wait_limit wait = wait_limit::forever();
    /// For the statements that acquire and free the lock. Nothing: the client's policy.
    std::optional<retry_policy> retry;
};

/// A held lock: renewed in the background, unlocked by its destructor.
///
/// It is lost when the server says so, or when its TTL has passed since the last successful renewal was sent. Not re-entrant:
/// a second lock() by the same thread waits for the first.
///
/// Thread-safe, except for moving and unlock(). A moved-from or unlocked object may only be destroyed, assigned to, or asked
/// is_held() (false) and lost() (true).
class held_lock {
  public:
    held_lock(held_lock &&) noexcept;
    held_lock &operator=(held_lock &&) noexcept;
    /// Unlocks, if it is held; does not throw. When the server cannot be reached, or a transaction that asserted the fence
    /// stays open for seconds, the lock becomes free when its lease ends.
    ~held_lock();

    const std::string &name() const noexcept;
    const std::string &scope() const noexcept;
    /// Greater than the fence of every earlier holder. Send it with each write to a resource that can reject a smaller fence.
    std::int64_t fence() const noexcept;

    /// Stop is requested when the lock is lost.
    stop_token stop() const noexcept;
    bool lost() const noexcept;
    void throw_if_lost() const;
    /// How long the lock is certainly held without another renewal; zero when it is lost.
    duration time_left() const noexcept;

    /// For the transaction that writes what the lock protects: no other caller can acquire the lock before that transaction
    /// ends. Throws lease_lost; the transaction must then be rolled back.
    void assert_fence(const target &in) const;

    /// Frees the lock. False: it was no longer held, so another holder may have worked meanwhile. Waits for transactions that
    /// asserted the fence: end them first. Throws when the server cannot be reached or reports an error; the lock then becomes
    /// free when its lease ends. The same happens when a connection broke while the lock was acquired, and the server executes
    /// the statement that was sent on it only after unlock(): the lock stays orphaned until that statement's lease ends.
    bool unlock();
    bool is_held() const noexcept { return state_ != nullptr; }

  private:
    struct state;
    friend std::optional<held_lock> try_lock(client &, const std::string &, const lock_options &);
    friend held_lock lock(client &, const std::string &, const lock_options &);

    explicit held_lock(std::unique_ptr<state> held) noexcept;
    static std::unique_ptr<state> acquire(client &db, const std::string &name, const lock_options &options,
                                          const wait_limit &wait);

    std::unique_ptr<state> state_;
};

/// Acquires the lock if it is free or its holder's lease is over; returns nothing if it is held. Ignores `options.wait`.
/// Throws bad_input, denied, read_only, connection_lost.
std::optional<held_lock> try_lock(client &db, const std::string &name, const lock_options &options = {});

/// Acquires the lock, and waits for other holders as `options.wait` says. Throws busy after that, and the errors of try_lock.
held_lock lock(client &db, const std::string &name, const lock_options &options = {});

/// Runs `work(held_lock &)` under the lock and returns its result. Throws lease_lost when the lock was lost before the work
/// ended, whatever the work returned; the exceptions of `work`; and the errors of lock().
///
///     idem::with_lock(db, "nightly-report", [&](idem::held_lock &lock) { write_report(lock.fence(), lock.stop()); });
template <typename F> auto with_lock(client &db, const std::string &name, const lock_options &options, F &&work) {
    static_assert(std::is_invocable_v<F &, held_lock &>, "work is called as work(idem::held_lock &)");
    held_lock held = lock(db, name, options);
    const auto end = [&] {
        held.throw_if_lost();
        if (!held.unlock())
            throw lease_lost("ID001", "lock \"" + name + "\" was lost before the work under it ended", {name, options.scope});
    };
    if constexpr (std::is_void_v<std::invoke_result_t<F &, held_lock &>>) {
        work(held);
        end();
    } else {
        auto result = work(held);
        end();
        return result;
    }
}
template <typename F> auto with_lock(client &db, const std::string &name, F &&work) {
    return with_lock(db, name, lock_options{}, std::forward<F>(work));
}

} // namespace idem
