#include "keys/wake_up.hpp"

#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/lock_wait_limit.hpp"
#include "server/value_lock.hpp"

namespace idem {

namespace {

// Runs `callable` with the (sub)transaction as the owner of locks, in place of the statement. When a subtransaction commits,
// its locks pass to the outer transaction, and only a lock's owner can release it.
template <typename Callable> auto as_transaction(Callable callable) {
    const ResourceOwner statement = CurrentResourceOwner;
    CurrentResourceOwner = CurTransactionResourceOwner;
    const auto result = callable();
    CurrentResourceOwner = statement;
    return result;
}

bool acquire(const LOCKTAG &tag, LOCKMODE mode, bool wait) {
    return as_transaction([&] { return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL; });
}

void release(const LOCKTAG &tag, LOCKMODE mode) {
    as_transaction([&] { return LockRelease(&tag, mode, false); });
}

} // namespace

LOCKTAG waiters_tag(KeySpace space, const text *scope, const text *key) {
    return value_tag(ValueLock::waiters, hash_of(scope, key, static_cast<uint64>(space)));
}

void start_waiting(const LOCKTAG &waiters) { (void)acquire(waiters, ShareLock, true); }

void stop_waiting(const LOCKTAG &waiters) { release(waiters, ShareLock); }

bool try_enter_queue(const LOCKTAG &waiters) { return acquire(waiters, ExclusiveLock, false); }

bool enter_queue(const LOCKTAG &waiters, core::Micros until) {
    if (until == core::kForever)
        return acquire(waiters, ExclusiveLock, true);
    const core::Micros left = time_left(until);
    return left > 0 && within_wait_limit(left, [&] { (void)acquire(waiters, ExclusiveLock, true); });
}

void leave_queue(const LOCKTAG &waiters) { release(waiters, ExclusiveLock); }

void sleep_until_woken(core::Micros at_most) {
    static uint32 wait_event = 0;
    const core::Micros milliseconds = Min((at_most + 999) / 1000, core::Micros{INT_MAX});
    (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Max(1, static_cast<long>(milliseconds)),
                    compat_wait_event(&wait_event, "IdemHolderRelease"));
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

void wake_waiters(KeySpace space, const text *scope, const text *key) {
    const LOCKTAG waiters = waiters_tag(space, scope, key);
    int count;
    VirtualTransactionId *holders = GetLockConflicts(&waiters, ExclusiveLock, &count);
    for (int i = 0; i < count; i++)
        // Waking a process that has stopped waiting meanwhile has no effect.
        if (PGPROC *process = compat_process_of(holders[i]))
            SetLatch(&process->procLatch);
    pfree(holders);
}

} // namespace idem
