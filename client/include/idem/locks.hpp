// Lease locks: who may do something now, across threads, processes and hosts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include <idem/client.hpp>
#include <idem/error.hpp>
#include <idem/request.hpp>
#include <idem/stop_token.hpp>
#include <idem/target.hpp>

namespace idem {

struct lock_options {
    /// The space in which the name is unique.
    std::string scope;
    /// How long the holder may be silent before others may take over. Renewed every third of it.
    duration lease{30'000};
    /// lock(), with_lock(): how long to wait for another holder. Waiters are served in the order in which they come; each keeps
    /// a connection of the pool.
    patience wait = patience::forever();
    /// Of the statements that take and free the lock. Nothing: the client's.
    std::optional<retry_policy> retry;
};

/// A lock while it is held: renewed in the background, unlocked when destroyed.
///
/// It is lost when the server says that somebody else has it, or when its lease has passed since the last renewal that
/// succeeded was sent. Not re-entrant: to take it a second time is to wait for oneself.
///
/// Thread-safe, but for moving and unlock(). One that was moved from or unlocked may only be destroyed, assigned to, or asked
/// whether it is held (it is not) or lost (it is).
class held_lock {
  public:
    held_lock(held_lock &&) noexcept;
    held_lock &operator=(held_lock &&) noexcept;
    /// Unlocks, if it is held; does not throw. When the server cannot be reached, or a transaction that asserted the fence goes
    /// on for seconds, the lock is free when its lease ends.
    ~held_lock();

    const std::string &name() const noexcept;
    const std::string &scope() const noexcept;
    /// Greater than that of everybody who held this lock before; to be handed on with each write to a resource that can refuse
    /// a smaller one.
    std::int64_t fence() const noexcept;

    /// Stop is requested when the lock is lost.
    stop_token stop() const noexcept;
    bool lost() const noexcept;
    void throw_if_lost() const;
    /// How long it is certainly held without another renewal; zero when it is lost.
    duration time_left() const noexcept;

    /// In the transaction that writes what the lock protects: nobody else can take the lock before that transaction ends.
    /// Throws lease_lost, and then the transaction has to be rolled back.
    void assert_fence(const target &in) const;

    /// Frees it. False: it was no longer held, so others may have been at work meanwhile. Waits for transactions that asserted
    /// the fence: end them first. Throws when the server cannot be reached or refuses; the lock is free then when its lease
    /// ends. The same holds when a connection broke while the lock was being taken, and the server comes to what it was sent on
    /// that one only after the lock was freed: it takes it once more, for nobody.
    bool unlock();
    bool is_held() const noexcept { return state_ != nullptr; }

  private:
    struct state;
    friend std::optional<held_lock> try_lock(client &, const std::string &, const lock_options &);
    friend held_lock lock(client &, const std::string &, const lock_options &);

    explicit held_lock(std::unique_ptr<state> of) noexcept;
    static std::unique_ptr<state> take(client &db, const std::string &name, const lock_options &options, const patience &wait);

    std::unique_ptr<state> state_;
};

/// Takes the lock if it is free, or its holder's lease is over; nothing when somebody holds it. `options.wait` does not count.
/// Throws bad_input, denied, read_only, connection_lost.
std::optional<held_lock> try_lock(client &db, const std::string &name, const lock_options &options = {});

/// Takes the lock, and waits for it if need be. Throws busy when the wait is over; else as try_lock.
held_lock lock(client &db, const std::string &name, const lock_options &options = {});

/// Runs `work(held_lock &)` under the lock and returns what it returns. Throws lease_lost when the lock was lost before the
/// work had ended, whatever that returned; what `work` throws; and as lock().
///
///     idem::with_lock(db, "nightly-report", [&](idem::held_lock &lock) { write_report(lock.fence(), lock.stop()); });
template <typename F> auto with_lock(client &db, const std::string &name, F &&work, const lock_options &options = {}) {
    held_lock held = lock(db, name, options);
    const auto end = [&] {
        held.throw_if_lost();
        if (!held.unlock())
            throw lease_lost("ID001", "lock \"" + name + "\" was lost before the work under it had ended",
                             {name, options.scope});
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

} // namespace idem
