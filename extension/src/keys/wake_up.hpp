// Waiting for the end of another caller's lease, and waking the waiters.
//
// A caller that waits for a name holds a heavyweight lock on the name's hash. A caller that changes the name's row asks the
// lock manager for these waiters, and sets their latches. That needs no shared memory of idem's own, and therefore no preload.
// The lock also ends with the waiter's transaction.
//
// No wake-up is lost: a waiter acquires that lock before it reads the row, and a change is written before its writer asks for
// waiters. A waiter is woken before the change commits. It then finds an uncommitted change, and waits for that transaction as
// any caller does. Deadlocks, PREPARE TRANSACTION and rolled-back savepoints therefore need no code here.
//
// Waiters for a key share the lock, and all are woken. Waiters for a lock acquire it exclusively: the first reads the row, the
// others queue in the lock manager.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/key_space.hpp"

namespace idem {

// The lock tag that all waiters for one name share.
LOCKTAG waiters_tag(KeySpace space, const text *scope, const text *key);

// Joins the waiters that share the lock, until stop_waiting. Never blocks.
void start_waiting(const LOCKTAG &waiters);

// Becomes the head of the queue, without a wait. Returns false when another caller is the head.
bool try_enter_queue(const LOCKTAG &waiters);

// As try_enter_queue, but waits until `until` (0: not at all) in an ordinary lock wait. Returns false when that time has
// passed.
bool enter_queue(const LOCKTAG &waiters, core::Micros until);

// Lets the next caller in, or leaves the waiters. Not needed after an error: the lock ends with the transaction.
void leave_queue(const LOCKTAG &waiters);
void stop_waiting(const LOCKTAG &waiters);

// Sleeps for at most `at_most` microseconds. May wake earlier without a reason. Can be cancelled.
void sleep_until_woken(core::Micros at_most);

// Makes the waiters read the row again. REQUIRES: the change that they must see is written.
void wake_waiters(KeySpace space, const text *scope, const text *key);

} // namespace idem
