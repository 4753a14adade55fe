// The background worker: sweeps the databases in idem.databases every idem.sweep_interval, when idem is in
// shared_preload_libraries.
//
// A launcher, connected to no database, keeps the time and starts a sweeper for each database that is due, as many at a time as
// idem.sweep_workers says. A sweeper lives for one sweep, and ends early when somebody wants its database for himself (DROP,
// RENAME, CREATE DATABASE … TEMPLATE): all of them wait five seconds for others to go. What became of a sweep it leaves in
// shared memory, in the slot that the launcher gave it. It may outlive the launcher, and the slot have been given to another
// since: each sweep has a number, and only the last one of a slot can report there.
//
// The server starts the launcher when it is out of recovery: on a standby, that is after its promotion.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr int kMostDatabases = 64;

enum class SweepOutcome : int {
    unknown, // the sweeper has not said anything: it is running, or was terminated
    swept,
    interrupted, // it made way for somebody else
    no_extension,
    failed
};

// What a sweeper is told when it is started; fits into BackgroundWorker::bgw_extra.
struct SweepTask {
    Oid database;
    uint32 known_error; // of the last sweep, which need not be logged again; 0: none
    uint64 number;      // of the sweep
};
static_assert(sizeof(SweepTask) <= BGW_EXTRALEN);

// What it leaves.
struct SweepReport {
    SweepOutcome outcome;
    uint32 error; // failed: a hash of state and message, not 0
};

// The slots of shared memory. REQUIRES: the library was preloaded.

// Gives the slot to a new sweep, of which nothing is known yet; returns its number.
uint64 open_report(int slot);

// Leaves a report, unless the slot is another sweep's by now.
void leave_report(int slot, uint64 number, SweepReport report);

SweepReport read_report(int slot);

// Whether somebody wants the database for himself: he locks it so that nobody can connect, and a sweeper neither stays then nor
// is to wait at the door. REQUIRES: a transaction.
bool is_wanted_alone(Oid database);

// Asks for shared memory and registers the launcher, if libraries are being preloaded.
void worker_initialize();

} // namespace idem
