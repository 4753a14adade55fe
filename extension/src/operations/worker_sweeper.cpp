// A sweeper: a process for one sweep of one database.
#include "operations/worker.hpp"

#include "operations/sweep.hpp"
#include "operations/sweep_progress.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/settings.hpp"

namespace {

using namespace idem;

// Rows. Small, because no client waits for the worker: the processor and WAL flushes are for the sessions with clients.
constexpr int kBatchSize = 200;

// Limited, because other databases wait for their sweep while a session keeps a table locked.
constexpr const char *kMaxLockWait = "10s";

// A command such as DROP EXTENSION locks the tables in another order. The sweeper looks for a deadlock earlier than a session
// does, and so is the one that gives way: the next sweep goes on.
constexpr const char *kDeadlockTimeout = "100ms";

void next_transaction() {
    CommitTransactionCommand();
    pgstat_report_stat(false); // autovacuum counts the deleted rows
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
}

bool must_stop() {
    if (ConfigReloadPending) {
        ConfigReloadPending = false;
        ProcessConfigFile(PGC_SIGHUP);
    }
    return is_locked_against_connections(MyDatabaseId);
}

SweepOutcome sweep_database() {
    SetCurrentStatementStartTimestamp();
    StartTransactionCommand();
    pgstat_report_activity(STATE_RUNNING, "sweeping what has expired");
    SweepOutcome outcome = SweepOutcome::no_extension;
    if (OidIsValid(get_extension_oid("idem", true))) {
        // The database may have its own idem.sweep_start_delay, which the launcher does not know. It is ignored if the system
        // time was set back to before the server's start.
        const core::Micros now = clock_now();
        if (now >= PgStartTime && now < sweep_start()) {
            CommitTransactionCommand();
            return SweepOutcome::swept;
        }
        next_transaction();
        const SweepOptions options = {kBatchSize, settings::sweep_pause * core::Micros{1000}};
        const bool finished = sweep_all({next_transaction, must_stop, DEBUG1}, options);
        outcome = finished ? SweepOutcome::swept : SweepOutcome::interrupted;
    }
    CommitTransactionCommand();
    return outcome;
}

uint32 error_hash(const ErrorData *error) {
    const char *message = error->message != nullptr ? error->message : "";
    const uint64 hash = hash_of_bytes(message, strlen(message), static_cast<uint64>(error->sqlerrcode));
    return Max(static_cast<uint32>(hash), uint32{1});
}

// Logs the error, unless it is that of the last sweep.
SweepReport report_failure(uint32 known_error) {
    MemoryContextSwitchTo(TopMemoryContext);
    const uint32 error = error_hash(CopyErrorData());
    if (error != known_error)
        EmitErrorReport();
    FlushErrorState();
    return {SweepOutcome::failed, error};
}

} // namespace

extern "C" {

PGDLLEXPORT void idem_sweeper_main(Datum slot);

void idem_sweeper_main(Datum slot) {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, die);
    BackgroundWorkerUnblockSignals();
    SweepTask task;
    memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof task);
    BackgroundWorkerInitializeConnectionByOid(task.database, InvalidOid, 0);
    if (LockTimeout == 0)
        SetConfigOption("lock_timeout", kMaxLockWait, PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("deadlock_timeout", kDeadlockTimeout, PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
    SweepReport report;
    PG_TRY();
    { report = {sweep_database(), 0}; }
    PG_CATCH();
    { report = report_failure(task.known_error); }
    PG_END_TRY();
    write_report(DatumGetInt32(slot), task.number, report);
    proc_exit(0); // aborts an open transaction
}

} // extern "C"
