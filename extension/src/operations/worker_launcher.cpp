// The launcher: starts the sweeps of the databases in idem.databases. All its times are those of monotonic_now(), which a
// change of the system time does not affect.
#include "operations/worker.hpp"

#include "operations/sweep.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/settings.hpp"

namespace {

using namespace idem;
using core::Micros;

constexpr Micros kMaxBackOff = USECS_PER_HOUR;
constexpr Micros kFirstRetry = 100 * 1000;

// The reason why a database cannot be swept. It is logged when it changes.
enum class Obstacle { none, missing, closed, no_extension };

// A database in idem.databases.
struct Entry {
    char name[NAMEDATALEN]; // empty: the entry is free
    Micros due;
    BackgroundWorkerHandle *sweeper; // or nullptr
    Obstacle obstacle;
    int failures; // in a row
    uint32 error; // of the last failure
    bool is_listed;
};

// Entry i's sweeper reports in slot i.
constinit Entry entries[kMaxDatabases] = {};

constinit Micros launched_at = 0;

// Whether the list has names for which no entry was free.
constinit bool list_is_truncated = false;

// The number of consecutive times that the server had no free background worker for a sweeper, and the time of the next
// attempt.
constinit int failed_starts = 0;
constinit Micros retry_at = 0;

Micros interval() { return settings::sweep_interval * Micros{1000}; }

// `wait`, doubled for each failure.
Micros doubled(Micros wait, int failures, Micros longest) {
    for (int i = 0; i < failures && wait < longest; i++)
        wait *= 2;
    return Min(wait, longest);
}

Micros back_off(int failures) { return doubled(interval(), failures, Max(kMaxBackOff, interval())); }

bool is_on_list(const List *names, const char *name) {
    ListCell *cell;
    foreach (cell, names)
        if (strcmp(static_cast<const char *>(lfirst(cell)), name) == 0)
            return true;
    return false;
}

Entry *find_entry(const char *name) {
    for (Entry &entry : entries)
        if (strcmp(entry.name, name) == 0)
            return &entry;
    return nullptr;
}

void list_database(const char *name) {
    Entry *entry = find_entry(name);
    if (entry == nullptr) {
        entry = find_entry("");
        if (entry == nullptr) {
            list_is_truncated = true;
            return;
        }
        *entry = {};
        strlcpy(entry->name, name, NAMEDATALEN);
    }
    entry->is_listed = true;
}

// Updates the entries from the list. The entry of a database that stays on the list keeps its state. Any other entry becomes
// free, but only after its sweeper has ended; the list is then read again.
void read_list() {
    char *list = pstrdup(settings::databases);
    List *names;
    if (!SplitIdentifierString(list, ',', &names)) // the setting's check hook has accepted it
        names = NIL;
    for (Entry &entry : entries) {
        entry.is_listed = entry.name[0] != '\0' && is_on_list(names, entry.name);
        if (!entry.is_listed && entry.sweeper == nullptr)
            entry = {};
    }
    list_is_truncated = false;
    ListCell *cell;
    foreach (cell, names)
        list_database(static_cast<const char *>(lfirst(cell)));
    int listed = 0;
    for (Entry &entry : entries) {
        listed += entry.is_listed;
        // A shorter interval takes effect immediately.
        entry.due = Min(entry.due, monotonic_now() + back_off(entry.failures));
    }
    retry_at = Min(retry_at, monotonic_now() + interval());
    if (list_is_truncated && listed == kMaxDatabases)
        ereport(LOG, (errmsg("some databases in idem.databases are not swept"),
                      errdetail("It has more than %d names; those after them are left out.", kMaxDatabases)));
    list_free(names);
    pfree(list);
}

void log_obstacle(const Entry &entry, Obstacle obstacle) {
    switch (obstacle) {
    case Obstacle::missing:
        ereport(LOG, (errmsg("database \"%s\" in idem.databases does not exist", entry.name),
                      errdetail("It is swept as soon as it does.")));
        break;
    case Obstacle::closed:
        ereport(LOG, (errmsg("database \"%s\" in idem.databases does not accept connections", entry.name)));
        break;
    case Obstacle::no_extension:
        ereport(LOG, (errmsg("database \"%s\" in idem.databases does not have the extension \"idem\"", entry.name),
                      errdetail("It is swept as soon as it does.")));
        break;
    case Obstacle::none:
        break;
    }
}

void set_obstacle(Entry *entry, Obstacle obstacle) {
    if (entry->obstacle != obstacle)
        log_obstacle(*entry, obstacle);
    entry->obstacle = obstacle;
}

struct Database {
    Oid oid; // InvalidOid: there is an obstacle
    Obstacle obstacle;
    bool is_locked;
};

// Scans the table, because the index on names may be unusable without a connection to a database.
Database find_database(const char *name) {
    Database found{InvalidOid, Obstacle::missing, false};
    StartTransactionCommand();
    (void)GetTransactionSnapshot();
    Relation table = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan_catalog(table, 0, nullptr);
    while (HeapTuple row = heap_getnext(scan, ForwardScanDirection)) {
        const auto *form = reinterpret_cast<Form_pg_database>(GETSTRUCT(row));
        if (strcmp(NameStr(form->datname), name) != 0)
            continue;
        // -2: an interrupted DROP DATABASE.
        const bool is_open = form->datallowconn && form->datconnlimit != -2;
        if (is_open)
            found = {form->oid, Obstacle::none, is_locked_against_connections(form->oid)};
        else
            found.obstacle = Obstacle::closed;
    }
    table_endscan(scan);
    table_close(table, AccessShareLock);
    CommitTransactionCommand();
    return found;
}

bool start_sweeper(Entry *entry, int slot, Oid database) {
    BackgroundWorker sweeper{};
    snprintf(sweeper.bgw_name, BGW_MAXLEN, "idem sweep of %s", entry->name);
    strlcpy(sweeper.bgw_type, "idem sweep", BGW_MAXLEN);
    sweeper.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    sweeper.bgw_start_time = BgWorkerStart_RecoveryFinished;
    sweeper.bgw_restart_time = BGW_NEVER_RESTART;
    strlcpy(sweeper.bgw_library_name, "idem", BGW_MAXLEN);
    strlcpy(sweeper.bgw_function_name, "idem_sweeper_main", BGW_MAXLEN);
    sweeper.bgw_main_arg = Int32GetDatum(slot);
    sweeper.bgw_notify_pid = MyProcPid;
    const SweepTask task = {database, entry->error, begin_report(slot)};
    memcpy(sweeper.bgw_extra, &task, sizeof task);
    const MemoryContext outer = MemoryContextSwitchTo(TopMemoryContext);
    const bool registered = RegisterDynamicBackgroundWorker(&sweeper, &entry->sweeper);
    MemoryContextSwitchTo(outer);
    if (!registered)
        entry->sweeper = nullptr;
    return registered;
}

// The server had no free background worker. The entry stays due.
void handle_failed_start(const Entry &entry) {
    const Micros wait = doubled(kFirstRetry, failed_starts, interval());
    ereport(failed_starts == 0 ? LOG : DEBUG1,
            (errmsg("could not start a sweep of database \"%s\"", entry.name),
             errdetail("No background worker is free. The next attempt is in %lld ms.", static_cast<long long>(wait / 1000)),
             errhint("You might need to increase max_worker_processes.")));
    failed_starts++;
    retry_at = monotonic_now() + wait;
}

void begin_sweep(Entry *entry, int slot) {
    const Database database = find_database(entry->name);
    if (OidIsValid(database.oid) && !database.is_locked) {
        if (!start_sweeper(entry, slot, database.oid))
            return handle_failed_start(*entry);
        failed_starts = 0;
    }
    entry->due = monotonic_now() + interval();
    // Only a sweeper can tell that the extension exists now.
    if (database.obstacle != Obstacle::none || entry->obstacle != Obstacle::no_extension)
        set_obstacle(entry, database.obstacle);
}

const char *outcome_text(SweepOutcome outcome) {
    switch (outcome) {
    case SweepOutcome::swept:
        return "finished";
    case SweepOutcome::interrupted:
        return "interrupted";
    case SweepOutcome::no_extension:
        return "no extension";
    case SweepOutcome::failed:
        return "failed";
    case SweepOutcome::unknown:
        break;
    }
    return "terminated";
}

void end_sweep(Entry *entry, int slot) {
    pfree(entry->sweeper);
    entry->sweeper = nullptr;
    const SweepReport report = read_report(slot);
    const bool failed = report.outcome == SweepOutcome::failed || report.outcome == SweepOutcome::unknown;
    entry->failures = failed ? entry->failures + 1 : 0;
    if (report.outcome != SweepOutcome::unknown)
        entry->error = report.error;
    set_obstacle(entry, report.outcome == SweepOutcome::no_extension ? Obstacle::no_extension : Obstacle::none);
    const Micros wait = back_off(entry->failures);
    entry->due = monotonic_now() + wait;
    ereport(DEBUG1, (errmsg_internal("sweep of database \"%s\" ended (%s), the next is due in %lld ms", entry->name,
                                     outcome_text(report.outcome), static_cast<long long>(wait / 1000))));
    if (!entry->is_listed) {
        *entry = {};
        if (list_is_truncated)
            read_list();
    }
}

// The end of idem.sweep_start_delay: by the system time, or by the time since this process started, whichever is earlier.
Micros first_sweep() {
    const Micros wait = Max(sweep_start(), clock_now()) - clock_now();
    return Min(monotonic_now() + wait, launched_at + settings::sweep_start_delay * USECS_PER_SEC);
}

// Ends the entries' sweeps whose process has ended. Returns the number of running sweepers.
int collect_sweepers() {
    int running = 0;
    for (int slot = 0; slot < kMaxDatabases; slot++) {
        Entry *entry = &entries[slot];
        if (entry->sweeper == nullptr)
            continue;
        pid_t pid;
        if (GetBackgroundWorkerPid(entry->sweeper, &pid) == BGWH_STOPPED)
            end_sweep(entry, slot);
        else
            running++;
    }
    return running;
}

// The entry that is due first, so that none waits forever. nullptr: all are being swept.
Entry *first_due_entry() {
    Entry *first = nullptr;
    for (Entry &entry : entries)
        if (entry.name[0] != '\0' && entry.sweeper == nullptr && (first == nullptr || entry.due < first->due))
            first = &entry;
    return first;
}

// Checked before the launcher sleeps: a lock wait may have reset the latch that a signal set meanwhile.
bool is_signal_pending() { return ShutdownRequestPending || ConfigReloadPending; }

// Starts the sweeps that are due. Returns the time of the next call; the end of a sweep also wakes the launcher.
Micros start_due_sweeps() {
    while (!is_signal_pending() && collect_sweepers() < settings::sweep_workers) {
        Entry *entry = first_due_entry();
        if (entry == nullptr)
            break;
        const Micros due = Max(Max(entry->due, retry_at), first_sweep());
        if (due > monotonic_now())
            return due;
        begin_sweep(entry, static_cast<int>(entry - entries));
    }
    return core::kForever;
}

void sleep_until(Micros when) {
    static uint32 wait_event = 0;
    long timeout = -1;
    int events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
    if (when != core::kForever) {
        timeout = static_cast<long>(Max(Min((when - monotonic_now() + 999) / 1000, Micros{INT_MAX}), Micros{0}));
        events |= WL_TIMEOUT;
    }
    (void)WaitLatch(MyLatch, events, timeout, compat_wait_event(&wait_event, "IdemLauncherMain"));
    ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
}

} // namespace

extern "C" {

PGDLLEXPORT void idem_launcher_main(Datum);

void idem_launcher_main(Datum) {
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
    BackgroundWorkerUnblockSignals();
    // Connects to no database: only shared catalogs can be read.
    BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
    launched_at = monotonic_now();
    read_list();
    while (!ShutdownRequestPending) {
        if (ConfigReloadPending) {
            ConfigReloadPending = false;
            ProcessConfigFile(PGC_SIGHUP);
            read_list();
        }
        const Micros next = start_due_sweeps();
        if (!is_signal_pending())
            sleep_until(next);
    }
    proc_exit(1); // the server starts another launcher, unless it shuts down
}

} // extern "C"
