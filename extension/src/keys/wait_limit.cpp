#include "keys/wait_limit.hpp"

#include "keys/wake_up.hpp"
#include "server/arguments.hpp"
#include "storage/key_store.hpp"
#include "storage/key_wait.hpp"

namespace idem {

namespace {

// Microseconds. Not every change of a row wakes the callers that wait for it, so a waiting caller reads the row again at
// least this often. The head of a queue reads it for the whole queue, so it may sleep longer.
constexpr core::Micros kMaxSleep = 100 * 1000;
constexpr core::Micros kMaxSleepInQueue = 1000 * 1000;
constexpr core::Micros kShortSleep = 1000;

} // namespace

core::Micros WaitLimit::time_left() const { return idem::time_left(request_.wait_until); }

bool WaitLimit::wait_for_commit(const KeyTable &table, const FoundRow &busy) {
    if (busy.speculative_token != 0 || blocks_on_rows()) {
        wait_for_holder(table, busy);
        return true;
    }
    const core::Micros left = time_left();
    return left > 0 && wait_for_holder_within(table, busy, left);
}

bool WaitLimit::wait_for_lease(core::Micros lease_left) {
    const core::Micros left = time_left();
    if (left <= 0)
        return false;
    if (request_.is_queued || is_waiting_) {
        const core::Micros longest = request_.is_queued ? kMaxSleepInQueue : kMaxSleep;
        sleep_until_woken(Min(Min(longest, left), Max(lease_left, core::Micros{1})));
        return true;
    }
    // A change before this point does not wake this caller, so it reads the row once more before it sleeps.
    waiters_ = waiters_tag(request_.space, request_.scope, request_.key);
    start_waiting(waiters_);
    is_waiting_ = true;
    return true;
}

bool WaitLimit::wait_for_row() { return wait_for_lease(kMaxSleep); }

Write WaitLimit::wait_for_asserters(const KeyTable &table, KeyVersion *version) {
    if (blocks_on_rows())
        return lock_key(table, version, LockTupleExclusive, LockWaitBlock);
    // The asserters are waited for one by one: a wait for the row lock would allow the whole limit to each of them.
    for (;; check_for_interrupts()) {
        const Write write = lock_key(table, version, LockTupleExclusive, LockWaitSkip);
        const core::Micros left = time_left();
        if (write != Write::busy || left <= 0)
            return write;
        const TransactionId asserter = locker_of(table, *version);
        if (!TransactionIdIsValid(asserter))
            sleep_until_woken(Min(left, kShortSleep)); // a transaction that is just locking the row cannot be waited for
        else if (!wait_for_transaction_within(table, asserter, *version, left))
            return Write::busy;
    }
}

void WaitLimit::end() {
    if (is_waiting_)
        stop_waiting(waiters_);
}

} // namespace idem
