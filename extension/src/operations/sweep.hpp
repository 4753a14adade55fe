// Sweeps the tables of keys, tokens, locks, rates and counters in batches, each in a transaction of its own. The procedure
// idem_sweep and the background worker use it.
//
// A number of rows and a time limit each batch. A claim of a key that is being deleted waits no longer than a batch, and no
// snapshot is held for longer.
//
// A batch commits without waiting for its flush. A crash may bring rows back, which are still expired. If a key was claimed
// again after its deletion, the flush of that commit also flushed the deletion.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"

namespace idem {

struct SweepOptions {
    int64 batch;        // the most rows changed in one transaction
    core::Micros pause; // between two transactions
};

// The caller's part of a sweep.
struct SweepCallbacks {
    void (*next_transaction)(); // commits and starts the next transaction
    bool (*must_stop)();        // called between batches, and at least ten times a second in a pause
    int report_level;           // of the messages about progress
};

// Sweeps every table once. False: must_stop ended the sweep early. Committed batches stay, and a later sweep continues at the
// block at which this one stopped. REQUIRES: a transaction that has written nothing and whose locks may end early. The sweep
// ends it; another one is open afterwards.
bool sweep_all(const SweepCallbacks &callbacks, const SweepOptions &options);

// The system time at which the first sweep after the server's start may begin (idem.sweep_start_delay). PG_INT64_MIN without a
// delay: the system time may have been set back since the start.
core::Micros sweep_start();

} // namespace idem
