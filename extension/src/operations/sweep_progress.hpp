// The progress of sweeps. Each table has a row in idem_sweeps for each slot; sweeps of a table at the same time have different
// slots. The row is written in the transaction of the batch that it describes. It is therefore correct after a crash, needs no
// shared memory, and is visible as soon as the batch is committed.
//
// A running sweep holds a lock on (table, slot) across its transactions. The server releases the lock when the sweep fails or
// its session ends. The lock also gives concurrent sweeps different rows, so that none waits for another.
#pragma once

#include "core/key_state.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member sweeps_table;

// The progress on one table, from `begin_progress` to `release_progress`.
struct SweepProgress {
    Oid table;
    int slot;
    core::Micros started_at;
    int64 blocks; // to read in all
    int64 blocks_done;
    int64 deleted;
    int64 redacted;
    int64 held;
    int64 batches;
    BlockNumber next_block; // the block at which a later sweep begins if this one is interrupted
};

// Acquires a slot. `next_block` is the block at which the slot's last sweep was interrupted, or 0.
SweepProgress begin_progress(Oid table, int64 blocks);

// Writes the slot's row. REQUIRES: the transaction commits next.
void write_progress(const SweepProgress &progress, bool is_complete);

// Releases the slot. REQUIRES: its last row is committed.
void release_progress(const SweepProgress &progress);

} // namespace idem
