// Waiting for the end of somebody's lease, and waking those who wait.
//
// Who waits for a name holds a heavyweight lock on its hash meanwhile; who changes the name's row asks the lock manager who
// those are, and sets their latches. There is no shared memory of our own, so no need to be preloaded, and whatever ends the
// waiter's transaction ends its waiting.
//
// No wake-up is lost: a waiter takes that lock before it looks at the row, and a change is written before its author asks who
// waits. The waiter is woken at once, before the change commits: what it then finds is an uncommitted change, and it waits for
// that transaction like everybody, so that deadlocks, PREPARE TRANSACTION and rolled-back savepoints need no thought here.
//
// Those who wait for a key share the lock, and are all woken. Those who wait for a lock take it exclusively: the first looks at
// the row, the others queue in the lock manager.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/key_space.hpp"

namespace idem {

// What those who wait for one name have in common.
LOCKTAG waiters_of(KeySpace space, const text *scope, const text *key);

// Among others, until `stop_waiting`. Never blocks.
void start_waiting(const LOCKTAG &waiters);

// Alone: false if somebody is before us.
bool enter_queue_at_once(const LOCKTAG &waiters);

// The same, in turn: a lock wait like any other. False: it was not our turn by `until` (0: do not wait).
bool enter_queue(const LOCKTAG &waiters, core::Micros until);

// Let the next one in, or stop listening. An error need not: the lock ends with the transaction.
void leave_queue(const LOCKTAG &waiters);
void stop_waiting(const LOCKTAG &waiters);

// Until woken, perhaps for nothing, or until the time is over; can be cancelled.
void sleep_until_woken(core::Micros at_most);

// Makes those who wait look again. REQUIRES: what they are to see is written.
void wake_waiters(KeySpace space, const text *scope, const text *key);

} // namespace idem
