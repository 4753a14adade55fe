#include "operations/sweep.hpp"

#include "operations/sweep_heap.hpp"
#include "operations/sweep_progress.hpp"
#include "rings/ring_work.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/settings.hpp"
#include "server/subtransaction.hpp"
#include "server/writable.hpp"
#include "storage/ring.hpp"

namespace idem {

namespace {

using core::Micros;

constexpr Micros kMaxBatchTime = 50 * 1000;
constexpr Micros kReportInterval = 10 * USECS_PER_SEC;
// While batches change nothing, their progress is written no more often.
constexpr Micros kIdleWriteInterval = USECS_PER_SEC;
constexpr Micros kMaxSleep = 100 * 1000;
// More steps of a ring come with the next visit: one with a very short retention always has some.
constexpr int kMaxRingSteps = 64;
// A long sweep works on rings in between.
constexpr Micros kRingInterval = 5 * USECS_PER_SEC;

// One pass through one table: from the block at which the last pass was interrupted to the end, then from block 0 to that
// block.
struct Pass {
    Member *member;
    SweptTable table;
    SweepProgress progress;
    bool has_begun;
    BlockNumber start;
    bool wrapped;
    HeapPosition position;
    BufferAccessStrategy strategy;
    const char *name;
    Micros written_at;
    Micros reported_at;
};

void begin_pass(Pass *pass, Relation relation, BlockNumber blocks, MemoryContext memory) {
    const MemoryContext outer = MemoryContextSwitchTo(memory);
    pass->name = pstrdup(RelationGetRelationName(relation));
    // A small ring of buffers, as for any large scan, so that the pages that claims need stay in memory.
    if (blocks > static_cast<BlockNumber>(NBuffers / 4))
        pass->strategy = GetAccessStrategy(BAS_BULKREAD);
    MemoryContextSwitchTo(outer);
    pass->progress = begin_progress(RelationGetRelid(relation), blocks);
    pass->start = pass->progress.next_block;
    pass->position = {pass->start, FirstOffsetNumber};
    pass->has_begun = true;
    pass->reported_at = monotonic_now();
}

// Whether the pass is complete. At the end of its first part, `end`, it continues at block 0.
bool complete_or_wrap(Pass *pass, BlockNumber end) {
    if (pass->position.block < end)
        return false;
    if (pass->wrapped || pass->start == 0)
        return true;
    pass->wrapped = true;
    pass->position = {0, FirstOffsetNumber};
    return false;
}

// Sweeps one batch in the current transaction. True: it was the last one.
bool sweep_batch(Pass *pass, const SweepOptions &options, MemoryContext memory) {
    Relation relation = open_member(*pass->member, RowExclusiveLock);
    const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
    if (!pass->has_begun)
        begin_pass(pass, relation, blocks, memory);
    if (RelationGetRelid(relation) != pass->progress.table)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"%s\" was replaced during the sweep", pass->name)));
    // Blocks that were added since the beginning contain only new rows.
    SweepProgress &progress = pass->progress;
    const auto end = static_cast<BlockNumber>(Min(int64{blocks}, pass->wrapped ? int64{pass->start} : progress.blocks));
    const Batch batch = sweep_blocks(pass->table, relation, &pass->position, end,
                                     {options.batch, monotonic_now() + kMaxBatchTime}, pass->strategy);
    table_close(relation, NoLock);
    progress.blocks_done += batch.blocks;
    progress.deleted += batch.deleted;
    progress.redacted += batch.redacted;
    progress.held += batch.held;
    progress.batches += batch.changed() > 0;
    const bool is_complete = complete_or_wrap(pass, end);
    progress.next_block = pass->position.block;
    const Micros now = monotonic_now();
    if (is_complete || batch.changed() > 0 || now - pass->written_at >= kIdleWriteInterval) {
        write_progress(progress, is_complete);
        pass->written_at = now;
    }
    return is_complete;
}

// SERIALIZABLE must not make sweeps fail, and expired rows do not need it.
void begin_transaction() {
    (void)set_config_option("transaction_isolation", "read committed", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
                            false);
    (void)set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
    prevent_unless_writable("idem_sweep()");
}

// Runs `work` in a transaction of its own, and returns what it returns.
template <typename Work> bool in_transaction_of_its_own(const SweepCallbacks &callbacks, MemoryContext memory, Work work) {
    begin_transaction();
    const MemoryContext outer = MemoryContextSwitchTo(memory);
    PushActiveSnapshot(GetTransactionSnapshot());
    const bool result = work();
    PopActiveSnapshot();
    MemoryContextSwitchTo(outer);
    MemoryContextReset(memory);
    callbacks.next_transaction();
    return result;
}

// The part of a message that only a table with removed responses has.
const char *redacted_text(const SweepProgress &progress) {
    return progress.redacted == 0 ? "" : psprintf(", %lld responses removed", static_cast<long long>(progress.redacted));
}

void report_progress(const SweepCallbacks &callbacks, Pass *pass) {
    const SweepProgress &progress = pass->progress;
    const Micros now = monotonic_now();
    if (now - pass->reported_at < kReportInterval)
        return;
    pass->reported_at = now;
    ereport(callbacks.report_level,
            (errmsg("sweeping \"%s\": %lld of %lld blocks, %lld rows deleted%s", pass->name,
                    static_cast<long long>(progress.blocks_done), static_cast<long long>(progress.blocks),
                    static_cast<long long>(progress.deleted), redacted_text(progress))));
}

void report_completion(const SweepCallbacks &callbacks, const Pass &pass) {
    const SweepProgress &progress = pass.progress;
    ereport(callbacks.report_level, (errmsg("swept \"%s\": %lld rows deleted%s in %lld batches, %lld in use left alone",
                                            pass.name, static_cast<long long>(progress.deleted), redacted_text(progress),
                                            static_cast<long long>(progress.batches), static_cast<long long>(progress.held))));
}

// False: must_stop returned true.
bool sleep_for(const SweepCallbacks &callbacks, Micros pause) {
    static uint32 wait_event = 0;
    const Micros until = monotonic_now() + pause;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (callbacks.must_stop())
            return false;
        const Micros left = until - monotonic_now();
        if (left <= 0)
            return true;
        (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                        static_cast<long>((Min(left, kMaxSleep) + 999) / 1000),
                        compat_wait_event(&wait_event, "IdemSweepPause"));
        ResetLatch(MyLatch);
    }
}

// A sweep of all tables.
struct Sweep {
    const SweepCallbacks &callbacks;
    const SweepOptions &options;
    MemoryContext memory;
    MemoryContext batch_memory;
    Micros rings_worked_on_at;
};

List *ring_ids(MemoryContext memory) {
    List *ids = NIL;
    ListCell *cell;
    foreach (cell, ring_entries()) {
        const MemoryContext own = MemoryContextSwitchTo(memory);
        ids = lappend_int(ids, static_cast<RingEntry *>(lfirst(cell))->id);
        MemoryContextSwitchTo(own);
    }
    return ids;
}

// Takes a ring's next step in a transaction of its own. A ring that is not as it was created, or whose tables are locked, keeps
// nothing else from being swept. False: there is none.
bool take_step(Sweep *sweep, int ring, RingAttempts *attempts) {
    return in_transaction_of_its_own(sweep->callbacks, sweep->batch_memory, [&] {
        bool is_taken = false;
        ErrorData *error = try_in_subtransaction([&] {
            is_taken = take_ring_step(ring, attempts);
            return true;
        });
        if (error == nullptr)
            return is_taken;
        if (error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
            ReThrowError(error);
        ereport(WARNING, (errmsg("a ring was left alone: %s", error->message),
                          errdetail_internal("%s", error->detail != nullptr ? error->detail : "")));
        return false;
    });
}

// Opens, fills and empties windows of rings, until nothing is due that can be done at once. False: must_stop returned true.
bool work_on_rings(Sweep *sweep) {
    const SweepCallbacks &callbacks = sweep->callbacks;
    sweep->rings_worked_on_at = monotonic_now();
    List *rings = NIL;
    (void)in_transaction_of_its_own(callbacks, sweep->batch_memory, [&] {
        rings = ring_ids(sweep->memory);
        if (rings != NIL)
            forget_left_places();
        return true;
    });
    ListCell *cell;
    foreach (cell, rings) {
        RingAttempts attempts{};
        for (int steps = 0; steps < kMaxRingSteps && take_step(sweep, lfirst_int(cell), &attempts); steps++)
            if (callbacks.must_stop())
                return false;
    }
    list_free(rings);
    return !callbacks.must_stop();
}

// What is done between two batches. False: must_stop returned true.
bool rest(Sweep *sweep) {
    const bool rings_are_due = monotonic_now() - sweep->rings_worked_on_at >= kRingInterval;
    return (!rings_are_due || work_on_rings(sweep)) && sleep_for(sweep->callbacks, sweep->options.pause);
}

bool sweep_table(Sweep *sweep, Member *member, const SweptTable &table) {
    Pass pass{};
    pass.member = member;
    pass.table = table;
    while (!in_transaction_of_its_own(sweep->callbacks, sweep->batch_memory,
                                      [&] { return sweep_batch(&pass, sweep->options, sweep->memory); })) {
        report_progress(sweep->callbacks, &pass);
        if (!rest(sweep)) {
            release_progress(pass.progress);
            return false;
        }
    }
    release_progress(pass.progress);
    report_completion(sweep->callbacks, pass);
    return !sweep->callbacks.must_stop();
}

// The windows that may have responses to remove.
List *windows_with_responses(Sweep *sweep) {
    List *windows = NIL;
    (void)in_transaction_of_its_own(sweep->callbacks, sweep->batch_memory, [&] {
        if (shortest_response_ttl() == core::kForever)
            return false;
        for_each_searched_window([&](RingWindow &window) {
            const MemoryContext own = MemoryContextSwitchTo(sweep->memory);
            windows = lappend(windows, &window.table);
            MemoryContextSwitchTo(own);
        });
        return true;
    });
    return windows;
}

bool sweep_windows(Sweep *sweep) {
    ListCell *cell;
    foreach (cell, windows_with_responses(sweep))
        if (!sweep_table(sweep, static_cast<Member *>(lfirst(cell)), {KeySpace::keys, true}))
            return false;
    return true;
}

} // namespace

bool sweep_all(const SweepCallbacks &callbacks, const SweepOptions &options) {
    MemoryContext memory = AllocSetContextCreate(PortalContext != nullptr ? PortalContext : TopMemoryContext, "idem sweep",
                                                 ALLOCSET_DEFAULT_SIZES);
    Sweep sweep{callbacks, options, memory, AllocSetContextCreate(memory, "idem sweep batch", ALLOCSET_DEFAULT_SIZES), 0};
    bool is_complete = work_on_rings(&sweep);
    for (const KeySpace table : kKeySpaces)
        is_complete = is_complete && sweep_table(&sweep, &table_of(table), {table, false});
    is_complete = is_complete && sweep_windows(&sweep);
    MemoryContextDelete(memory);
    return is_complete;
}

core::Micros sweep_start() {
    if (settings::sweep_start_delay == 0)
        return PG_INT64_MIN;
    return PgStartTime + settings::sweep_start_delay * USECS_PER_SEC;
}

} // namespace idem

namespace {

using namespace idem;

void next_transaction() { SPI_commit(); }
bool never_stop() { return false; }

constexpr int64 kDefaultBatch = 10'000;

SweepOptions options_of(FunctionCallInfo fcinfo) {
    const SweepOptions options = {PG_ARGISNULL(0) ? kDefaultBatch : PG_GETARG_INT32(0),
                                  PG_ARGISNULL(1) ? 0 : span_of(PG_GETARG_INTERVAL_P(1), "pause")};
    if (options.batch <= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("batch must be positive")));
    if (options.pause < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pause must not be negative")));
    check_deadline(options.pause, "pause");
    return options;
}

void require_own_transactions(FunctionCallInfo fcinfo) {
    const bool atomic =
        fcinfo->context == nullptr || !IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic;
    // Earlier statements of a pipeline are in the same transaction, although it is no transaction block.
    if (atomic || IsSubTransaction() || (MyXactFlags & XACT_FLAGS_PIPELINING))
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
                        errmsg("idem_sweep() cannot run inside a transaction block"), errdetail("It commits after each batch."),
                        errhint("Send CALL idem_sweep() as a statement of its own, outside of BEGIN … COMMIT, pipelines, "
                                "functions and exception blocks.")));
}

} // namespace

SQL_FUNCTION(idem_sweep) {
    const SweepOptions options = options_of(fcinfo);
    require_own_transactions(fcinfo);
    prevent_unless_writable("idem_sweep()");
    if (sweep_start() > clock_now()) {
        ereport(NOTICE, (errmsg("nothing is swept before %s", timestamptz_to_str(sweep_start())),
                         errdetail("The server started at %s, and idem.sweep_start_delay is not over.",
                                   pstrdup(timestamptz_to_str(PgStartTime))),
                         errhint("To sweep all the same: SET idem.sweep_start_delay = 0.")));
        PG_RETURN_VOID();
    }
    if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
        elog(ERROR, "could not connect to SPI");
    // Commit the caller's work with the caller's synchronous_commit.
    next_transaction();
    sweep_all({next_transaction, never_stop, NOTICE}, options);
    SPI_finish();
    PG_RETURN_VOID();
}
