#include "operations/sweep.hpp"

#include "operations/sweep_heap.hpp"
#include "operations/sweep_progress.hpp"
#include "server/arguments.hpp"
#include "server/settings.hpp"
#include "server/writable.hpp"

namespace idem {

namespace {

using core::Micros;

constexpr Micros kLongestBatch = 50 * 1000;
constexpr Micros kBetweenReports = 10 * USECS_PER_SEC;
// What is found out about tables in which nothing has expired is written down no more often than that.
constexpr Micros kBetweenIdleWrites = USECS_PER_SEC;
constexpr Micros kLongestNap = 100 * 1000;

// One walk through one table, from where the last one was interrupted to the end and from the beginning to there.
struct Pass {
    KeySpace table;
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
    // As for any large scan, lest the pages that the claims need are pushed out.
    if (blocks > static_cast<BlockNumber>(NBuffers / 4))
        pass->strategy = GetAccessStrategy(BAS_BULKREAD);
    MemoryContextSwitchTo(outer);
    pass->progress = begin_progress(RelationGetRelid(relation), blocks);
    pass->start = pass->progress.next_block;
    pass->position = {pass->start, FirstOffsetNumber};
    pass->has_begun = true;
    pass->reported_at = monotonic_now();
}

// Whether the pass has come to its end. `end`: of the part that it is in.
bool turn_around(Pass *pass, BlockNumber end) {
    if (pass->position.block < end)
        return false;
    if (pass->wrapped || pass->start == 0)
        return true;
    pass->wrapped = true;
    pass->position = {0, FirstOffsetNumber};
    return false;
}

// One batch within the transaction; true: it was the last.
bool sweep_batch(Pass *pass, const SweepOptions &options, MemoryContext memory) {
    Relation relation = open_member(table_of(pass->table), RowExclusiveLock);
    const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
    if (!pass->has_begun)
        begin_pass(pass, relation, blocks, memory);
    if (RelationGetRelid(relation) != pass->progress.table)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("table \"%s\" was replaced during the sweep", pass->name)));
    // What is behind the blocks that were there at the beginning is new.
    SweepProgress &progress = pass->progress;
    const auto end = static_cast<BlockNumber>(Min(int64{blocks}, pass->wrapped ? int64{pass->start} : progress.blocks));
    const Batch batch = sweep_blocks(pass->table, relation, &pass->position, end,
                                     {options.batch, monotonic_now() + kLongestBatch}, pass->strategy);
    table_close(relation, NoLock);
    progress.blocks_done += batch.blocks;
    progress.deleted += batch.deleted;
    progress.held += batch.held;
    progress.batches += batch.deleted > 0;
    const bool is_complete = turn_around(pass, end);
    progress.next_block = pass->position.block;
    const Micros now = monotonic_now();
    if (is_complete || batch.deleted > 0 || now - pass->written_at >= kBetweenIdleWrites) {
        write_progress(progress, is_complete);
        pass->written_at = now;
    }
    return is_complete;
}

// SERIALIZABLE has nothing to say about rows that are void, and must not make sweeps fail.
void begin_transaction() {
    (void)set_config_option("transaction_isolation", "read committed", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
                            false);
    (void)set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
    prevent_unless_writable("idem_sweep()");
}

bool sweep_batch_in_transaction(const Sweeper &sweeper, Pass *pass, const SweepOptions &options, MemoryContext memory,
                                MemoryContext batch_memory) {
    begin_transaction();
    const MemoryContext outer = MemoryContextSwitchTo(batch_memory);
    PushActiveSnapshot(GetTransactionSnapshot());
    const bool is_complete = sweep_batch(pass, options, memory);
    PopActiveSnapshot();
    MemoryContextSwitchTo(outer);
    MemoryContextReset(batch_memory);
    sweeper.next_transaction();
    return is_complete;
}

void report_progress(const Sweeper &sweeper, Pass *pass) {
    const SweepProgress &progress = pass->progress;
    const Micros now = monotonic_now();
    if (now - pass->reported_at < kBetweenReports)
        return;
    pass->reported_at = now;
    ereport(sweeper.report_level, (errmsg("sweeping \"%s\": %lld of %lld blocks, %lld rows deleted", pass->name,
                                          static_cast<long long>(progress.blocks_done), static_cast<long long>(progress.blocks),
                                          static_cast<long long>(progress.deleted))));
}

void report_completion(const Sweeper &sweeper, const Pass &pass) {
    const SweepProgress &progress = pass.progress;
    ereport(sweeper.report_level, (errmsg("swept \"%s\": %lld rows deleted in %lld batches, %lld in use left alone", pass.name,
                                          static_cast<long long>(progress.deleted), static_cast<long long>(progress.batches),
                                          static_cast<long long>(progress.held))));
}

// False: told to stop.
bool rest(const Sweeper &sweeper, Micros pause) {
    const Micros until = monotonic_now() + pause;
    for (;;) {
        CHECK_FOR_INTERRUPTS();
        if (sweeper.must_stop())
            return false;
        const Micros left = until - monotonic_now();
        if (left <= 0)
            return true;
        (void)WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                        static_cast<long>((Min(left, kLongestNap) + 999) / 1000), PG_WAIT_EXTENSION);
        ResetLatch(MyLatch);
    }
}

bool sweep_table(const Sweeper &sweeper, KeySpace table, const SweepOptions &options, MemoryContext memory,
                 MemoryContext batch_memory) {
    Pass pass{};
    pass.table = table;
    while (!sweep_batch_in_transaction(sweeper, &pass, options, memory, batch_memory)) {
        report_progress(sweeper, &pass);
        if (!rest(sweeper, options.pause)) {
            release_progress(pass.progress);
            return false;
        }
    }
    release_progress(pass.progress);
    report_completion(sweeper, pass);
    return !sweeper.must_stop();
}

} // namespace

bool sweep_all(const Sweeper &sweeper, const SweepOptions &options) {
    MemoryContext memory = AllocSetContextCreate(PortalContext != nullptr ? PortalContext : TopMemoryContext, "idem sweep",
                                                 ALLOCSET_DEFAULT_SIZES);
    MemoryContext batch_memory = AllocSetContextCreate(memory, "idem sweep batch", ALLOCSET_DEFAULT_SIZES);
    bool go_on = true;
    for (const KeySpace table : kKeySpaces)
        go_on = go_on && sweep_table(sweeper, table, options, memory, batch_memory);
    MemoryContextDelete(memory);
    return go_on;
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
bool never() { return false; }

SweepOptions options_of(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(0))
        raise_null_argument("batch");
    if (PG_ARGISNULL(1))
        raise_null_argument("pause");
    const SweepOptions options = {PG_GETARG_INT32(0), span_of(PG_GETARG_INTERVAL_P(1), "pause")};
    if (options.batch <= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("batch must be positive")));
    if (options.pause < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pause must not be negative")));
    deadline_after(clock_now(), options.pause, "pause");
    return options;
}

void require_own_transactions(FunctionCallInfo fcinfo) {
    const bool atomic =
        fcinfo->context == nullptr || !IsA(fcinfo->context, CallContext) || castNode(CallContext, fcinfo->context)->atomic;
    // What was sent before it in a pipeline is in the same transaction, which is no block.
    if (atomic || IsSubTransaction() || (MyXactFlags & XACT_FLAGS_PIPELINING))
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
                        errmsg("idem_sweep() cannot run inside a transaction block"), errdetail("It commits after each batch."),
                        errhint("Send CALL idem_sweep() as a statement of its own, outside of BEGIN … COMMIT, pipelines, "
                                "functions and exception blocks.")));
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_sweep);

PGDLLEXPORT Datum idem_sweep(PG_FUNCTION_ARGS) {
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
    // What the caller has done is committed as the caller wants it, not without waiting for the flush.
    next_transaction();
    sweep_all({next_transaction, never, NOTICE}, options);
    SPI_finish();
    PG_RETURN_VOID();
}

} // extern "C"
