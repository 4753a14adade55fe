// The launcher: one entry for each database in idem.databases. It keeps the time by a clock that nobody sets.
#include "operations/worker.hpp"

#include "operations/sweep.hpp"
#include "server/arguments.hpp"
#include "server/settings.hpp"

namespace {

using namespace idem;
using core::Micros;

constexpr Micros kLongestBackOff = USECS_PER_HOUR;
constexpr Micros kFirstRetry = 100 * 1000;

// What keeps a database from being swept: logged when it is new.
enum class Obstacle { none, missing, closed, no_extension };

struct Entry {
    char name[NAMEDATALEN];
    Micros due;                      // monotonic_now()
    BackgroundWorkerHandle *sweeper; // or nullptr
    Obstacle obstacle;
    int failures; // in a row
    uint32 error; // the last one of them
    bool wanted;  // while the list is read
};

// Entry i's sweeper reports in slot i.
constinit Entry entries[kMostDatabases] = {};

constinit Micros launched_at = 0; // monotonic_now()

// Names on the list that found no entry.
constinit bool list_has_rest = false;

// How often in a row the server had no room for a sweeper, whichever it was, and when to ask again.
constinit int refusals = 0;
constinit Micros retry_at = 0; // monotonic_now()

Micros interval() { return settings::sweep_interval * Micros{1000}; }

// `wait`, twice as long for each time that it was in vain.
Micros grown(Micros wait, int times, Micros longest) {
    for (int i = 0; i < times && wait < longest; i++)
        wait *= 2;
    return Min(wait, longest);
}

Micros back_off(int failures) { return grown(interval(), failures, Max(kLongestBackOff, interval())); }

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

void want_database(const char *name) {
    Entry *entry = find_entry(name);
    if (entry == nullptr) {
        entry = find_entry("");
        if (entry == nullptr) {
            list_has_rest = true;
            return;
        }
        *entry = {};
        strlcpy(entry->name, name, NAMEDATALEN);
    }
    entry->wanted = true;
}

// Entries keep what is known of a database that stays on the list; others make room for new ones. One whose sweeper is still
// running does when that has ended, and then the list is read again.
void read_list() {
    char *list = pstrdup(settings::databases);
    List *names;
    if (!SplitIdentifierString(list, ',', &names)) // checked when it was set
        names = NIL;
    for (Entry &entry : entries) {
        entry.wanted = entry.name[0] != '\0' && is_on_list(names, entry.name);
        if (!entry.wanted && entry.sweeper == nullptr)
            entry = {};
    }
    list_has_rest = false;
    ListCell *cell;
    foreach (cell, names)
        want_database(static_cast<const char *>(lfirst(cell)));
    int wanted = 0;
    for (Entry &entry : entries) {
        wanted += entry.wanted;
        // A new interval, or a new delay, holds at once.
        entry.due = Min(entry.due, monotonic_now() + back_off(entry.failures));
    }
    retry_at = Min(retry_at, monotonic_now() + interval());
    if (list_has_rest && wanted == kMostDatabases)
        ereport(LOG, (errmsg("some databases in idem.databases are not swept"),
                      errdetail("It has more than %d names; those after them are left out.", kMostDatabases)));
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

void meet(Entry *entry, Obstacle obstacle) {
    if (entry->obstacle != obstacle)
        log_obstacle(*entry, obstacle);
    entry->obstacle = obstacle;
}

struct Found {
    Oid database; // InvalidOid: there is an obstacle
    Obstacle obstacle;
    bool is_wanted_alone;
};

// Without a database of our own there may be no index to be had, so we read the table.
Found find_database(const char *name) {
    Found found{InvalidOid, Obstacle::missing, false};
    StartTransactionCommand();
    (void)GetTransactionSnapshot();
    Relation table = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan_catalog(table, 0, nullptr);
    while (HeapTuple row = heap_getnext(scan, ForwardScanDirection)) {
        const auto *form = reinterpret_cast<Form_pg_database>(GETSTRUCT(row));
        if (strcmp(NameStr(form->datname), name) != 0)
            continue;
        // -2: its DROP was interrupted.
        const bool is_open = form->datallowconn && form->datconnlimit != -2;
        if (is_open)
            found = {form->oid, Obstacle::none, is_wanted_alone(form->oid)};
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
    const SweepTask task = {database, entry->error, open_report(slot)};
    memcpy(sweeper.bgw_extra, &task, sizeof task);
    const MemoryContext outer = MemoryContextSwitchTo(TopMemoryContext);
    const bool registered = RegisterDynamicBackgroundWorker(&sweeper, &entry->sweeper);
    MemoryContextSwitchTo(outer);
    if (!registered)
        entry->sweeper = nullptr;
    return registered;
}

// The entry stays due.
void note_refusal(const Entry &entry) {
    const Micros wait = grown(kFirstRetry, refusals, interval());
    ereport(refusals == 0 ? LOG : DEBUG1,
            (errmsg("could not start a sweep of database \"%s\"", entry.name),
             errdetail("No background worker is free. The next attempt is in %lld ms.", static_cast<long long>(wait / 1000)),
             errhint("You might need to increase max_worker_processes.")));
    refusals++;
    retry_at = monotonic_now() + wait;
}

void begin_sweep(Entry *entry, int slot) {
    const Found found = find_database(entry->name);
    if (OidIsValid(found.database) && !found.is_wanted_alone) {
        if (!start_sweeper(entry, slot, found.database))
            return note_refusal(*entry);
        refusals = 0;
    }
    entry->due = monotonic_now() + interval();
    // Whether there is an extension is the sweeper's to find out.
    if (found.obstacle != Obstacle::none || entry->obstacle != Obstacle::no_extension)
        meet(entry, found.obstacle);
}

const char *word_for(SweepOutcome outcome) {
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
    meet(entry, report.outcome == SweepOutcome::no_extension ? Obstacle::no_extension : Obstacle::none);
    const Micros wait = back_off(entry->failures);
    entry->due = monotonic_now() + wait;
    ereport(DEBUG1, (errmsg_internal("sweep of database \"%s\" ended (%s), the next is due in %lld ms", entry->name,
                                     word_for(report.outcome), static_cast<long long>(wait / 1000))));
    if (!entry->wanted) {
        *entry = {};
        if (list_has_rest)
            read_list();
    }
}

// When idem.sweep_start_delay is over: by the clock, or because this process has been there for that long.
Micros first_sweep() {
    const Micros wait = Max(sweep_start(), clock_now()) - clock_now();
    return Min(monotonic_now() + wait, launched_at + settings::sweep_start_delay * USECS_PER_SEC);
}

// Takes note of the sweeps that have ended; returns how many have not.
int count_sweepers() {
    int running = 0;
    for (int slot = 0; slot < kMostDatabases; slot++) {
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

// The one that is due first, so that none is passed over for ever. nullptr: all are being swept.
Entry *first_in_line() {
    Entry *first = nullptr;
    for (Entry &entry : entries)
        if (entry.name[0] != '\0' && entry.sweeper == nullptr && (first == nullptr || entry.due < first->due))
            first = &entry;
    return first;
}

// A lock that had to be waited for may have used up the latch of a signal that came meanwhile.
bool is_called_away() { return ShutdownRequestPending || ConfigReloadPending; }

// Starts what is due, and says when to look again; the end of a sweep wakes us as well.
Micros attend() {
    while (!is_called_away() && count_sweepers() < settings::sweep_workers) {
        Entry *entry = first_in_line();
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
    long timeout = -1;
    int events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
    if (when != core::kForever) {
        timeout = static_cast<long>(Max(Min((when - monotonic_now() + 999) / 1000, Micros{INT_MAX}), Micros{0}));
        events |= WL_TIMEOUT;
    }
    (void)WaitLatch(MyLatch, events, timeout, PG_WAIT_EXTENSION);
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
    // The catalogs that all databases share, and no database.
    BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
    launched_at = monotonic_now();
    read_list();
    while (!ShutdownRequestPending) {
        if (ConfigReloadPending) {
            ConfigReloadPending = false;
            ProcessConfigFile(PGC_SIGHUP);
            read_list();
        }
        const Micros next = attend();
        if (!is_called_away())
            sleep_until(next);
    }
    proc_exit(1); // so that the server starts another, unless it shuts down
}

} // extern "C"
