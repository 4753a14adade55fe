// The background worker: sweeps the databases in idem.databases every idem.sweep_interval, if idem is in
// shared_preload_libraries.
//
// A launcher, connected to no database, starts a sweeper for each database that is due, at most idem.sweep_workers at a time.
//
// A sweeper is a process for one sweep. It ends early when a session locks its database against connections (DROP, RENAME,
// CREATE DATABASE … TEMPLATE), because these commands wait at most five seconds for other sessions to end. The sweeper reports
// its outcome in shared memory, in the slot that the launcher assigned. It may outlive the launcher, and the slot may be
// assigned to another sweep by then. Each sweep therefore has a number, and only the last sweep of a slot can report there.
//
// The server starts the launcher after recovery; on a standby, after its promotion.
#pragma once

#include "server/pg.hpp"

namespace idem {

inline constexpr int kMaxDatabases = 64;

enum class SweepOutcome : int {
    unknown, // no report: the sweeper is running, or was terminated
    swept,
    interrupted, // another session locks the database against connections
    no_extension,
    failed
};

// The sweeper's input, in BackgroundWorker::bgw_extra.
struct SweepTask {
    Oid database;
    uint32 known_error; // the last sweep's error, which is not logged again; 0: none
    uint64 number;      // of this sweep
};
static_assert(sizeof(SweepTask) <= BGW_EXTRALEN);

// The sweeper's result.
struct SweepReport {
    SweepOutcome outcome;
    uint32 error; // failed: a hash of SQLSTATE and message, not 0
};

// The slots in shared memory. REQUIRES: the library was preloaded.

// Assigns the slot to a new sweep, with the outcome `unknown`, and returns the sweep's number.
uint64 begin_report(int slot);

// Writes a report, unless the slot is assigned to another sweep by now.
void write_report(int slot, uint64 number, SweepReport report);

SweepReport read_report(int slot);

// Whether another session holds or awaits a lock that prevents connections to the database. A sweeper then ends, and none is
// started, as it could not connect. REQUIRES: a transaction.
bool is_locked_against_connections(Oid database);

// Requests shared memory and registers the launcher, if libraries are being preloaded.
void worker_initialize();

} // namespace idem
