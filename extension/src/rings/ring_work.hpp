// The work on a ring that the sweeper does: each step is a short transaction, or one that blocks nobody; each can be repeated,
// and none has to be punctual.
#pragma once

#include "core/ring_schedule.hpp"
#include "server/pg.hpp"

namespace idem {

// The steps of a ring that were attempted during one sweep and failed: a lock was not available at once.
struct RingAttempts {
    bool open;
    uint32 windows;
};

// Takes the step that is due, in the current transaction; the caller commits. False: nothing is due that was not attempted.
bool take_ring_step(int ring, RingAttempts *attempts);

// Removes the rows of idem_scope_places that name a place where no key of the scope is left.
void forget_left_places();

// Makes the tables of the ring depend on the extension, unless they do.
void adopt_ring(int ring);

// Moves a scope into a ring, or back to idem_keys (kInIdemKeys). No key is forgotten. Holds its locks until the transaction
// ends.
void move_scope(const text *scope, int ring);

} // namespace idem
