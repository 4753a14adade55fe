// How far sweeps have come: one row of idem_sweeps for each table, and for each of those that sweep it at the same time. The
// row is written in the transaction of the batch it tells of, so it is right after a crash, without shared memory, and
// everybody sees it as soon as the batch is committed.
//
// Whether a sweep is still running tells a lock on (table, slot), held across its transactions: the server lets go of it when
// the sweep fails or its session ends. It also gives each of several sweeps a row of its own, so that none waits for another.
#pragma once

#include "core/key_state.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member sweeps_table;

// Of one table, from `begin_progress` to `end_progress`.
struct SweepProgress {
    Oid table;
    int slot;
    core::Micros started_at;
    int64 blocks; // how many there are to look at
    int64 blocks_done;
    int64 deleted;
    int64 held;
    int64 batches;
    BlockNumber next_block; // where a later sweep is to begin when this one does not come to its end
};

// Takes a slot. `next_block` is where the last sweep of this slot was interrupted, or 0.
SweepProgress begin_progress(Oid table, int64 blocks);

// Writes the slot's row. REQUIRES: nothing to do after it but to commit.
void write_progress(const SweepProgress &progress, bool is_complete);

// Lets go of the slot, once the last of it is committed.
void release_progress(const SweepProgress &progress);

} // namespace idem
