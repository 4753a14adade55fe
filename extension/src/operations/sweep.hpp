// Sweeping: all tables of keys, tokens, locks, rates and counters, batch by batch, each batch a transaction of its own. Shared
// by the procedure idem_sweep and the background worker.
//
// A batch is bounded by a number of rows and by time, so that a claim of a key that is just being deleted waits for no more
// than that, and no snapshot is held for longer. It commits without waiting for its flush: after a crash, rows that are back
// are as expired as they were, and whoever claimed such a key flushes the deletion with its own commit.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"

namespace idem {

struct SweepOptions {
    int64 batch;        // most rows deleted in one transaction
    core::Micros pause; // between two of them
};

// Who sweeps, and how it goes from one transaction to the next.
struct Sweeper {
    void (*next_transaction)(); // commits, and starts another
    bool (*must_stop)();        // asked between batches; also within a pause, at least ten times a second
    int report_level;           // of the messages about progress
};

// Sweeps every table once; false when told to stop before the end. Every batch that was committed stays done, and a later
// sweep of the table begins where this one stopped. REQUIRES: a transaction, without locks that matter and with nothing
// written; there is another one afterwards.
bool sweep_all(const Sweeper &sweeper, const SweepOptions &options);

// When, by the clock, the first sweep after the server's start may begin (idem.sweep_start_delay); PG_INT64_MIN without a
// delay, for the clock may have been set back since the start.
core::Micros sweep_start();

} // namespace idem
