#include "operations/sweep_progress.hpp"

#include "server/arguments.hpp"
#include "server/value_lock.hpp"
#include "storage/internal_sql.hpp"

namespace idem {

namespace {

constexpr Column kColumns[] = {
    {"swept", REGCLASSOID},
    {"slot", INT4OID},
    {"pid", INT4OID},
    {"started_at", TIMESTAMPTZOID},
    {"updated_at", TIMESTAMPTZOID},
    {"finished_at", TIMESTAMPTZOID, kNullable},
    {"complete_from", TIMESTAMPTZOID, kNullable},
    {"next_block", INT8OID},
    {"blocks_total", INT8OID},
    {"blocks_done", INT8OID},
    {"rows_deleted", INT8OID},
    {"rows_redacted", INT8OID},
    {"rows_held", INT8OID},
    {"batches", INT8OID},
};

constexpr const char *kSelectNextBlock =
    "SELECT next_block FROM %s WHERE swept OPERATOR(pg_catalog.=) $1::pg_catalog.oid AND slot OPERATOR(pg_catalog.=) $2";

// $4: whether the pass is complete.
constexpr const char *kWriteRow =
    "INSERT INTO %s AS s (swept, slot, pid, started_at, updated_at, finished_at, complete_from, next_block, blocks_total,"
    " blocks_done, rows_deleted, rows_redacted, rows_held, batches)"
    " SELECT $1, $2, pg_catalog.pg_backend_pid(), $3, t.now, CASE WHEN $4 THEN t.now END, CASE WHEN $4 THEN $3 END,"
    " $5, $6, $7, $8, $9, $10, $11"
    " FROM (SELECT pg_catalog.clock_timestamp() AS now OFFSET 0) t"
    " ON CONFLICT (swept, slot) DO UPDATE SET pid = excluded.pid, started_at = excluded.started_at,"
    " updated_at = excluded.updated_at, finished_at = excluded.finished_at,"
    " complete_from = coalesce(excluded.complete_from, s.complete_from), next_block = excluded.next_block,"
    " blocks_total = excluded.blocks_total, blocks_done = excluded.blocks_done, rows_deleted = excluded.rows_deleted,"
    " rows_redacted = excluded.rows_redacted, rows_held = excluded.rows_held, batches = excluded.batches";

LOCKTAG slot_tag(Oid table, int slot) { return session_value_tag(ValueLock::sweep, (static_cast<uint64>(slot) << 32) | table); }

int acquire_slot(Oid table) {
    for (int slot = 0;; slot++) {
        const LOCKTAG tag = slot_tag(table, slot);
        if (LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
            return slot;
        CHECK_FOR_INTERRUPTS();
    }
}

SqlArgument number(int64 value) { return {INT8OID, Int64GetDatum(value), false}; }

} // namespace

constinit Member sweeps_table = member_table("idem_sweeps", kColumns, 1, 2, kAnyChecks);

SweepProgress begin_progress(Oid table, int64 blocks) {
    SweepProgress progress{};
    progress.table = table;
    progress.slot = acquire_slot(table);
    progress.started_at = clock_now();
    progress.blocks = blocks;
    const SqlArgument arguments[] = {{OIDOID, ObjectIdGetDatum(table), false}, {INT4OID, Int32GetDatum(progress.slot), false}};
    Datum next_block = 0;
    run_as_owner(psprintf(kSelectNextBlock, member_name(sweeps_table)), arguments, lengthof(arguments), &next_block);
    const int64 block = DatumGetInt64(next_block);
    progress.next_block = block > 0 && block < blocks ? static_cast<BlockNumber>(block) : 0;
    return progress;
}

void write_progress(const SweepProgress &progress, bool is_complete) {
    const SqlArgument arguments[] = {{REGCLASSOID, ObjectIdGetDatum(progress.table), false},
                                     {INT4OID, Int32GetDatum(progress.slot), false},
                                     {TIMESTAMPTZOID, TimestampTzGetDatum(progress.started_at), false},
                                     {BOOLOID, BoolGetDatum(is_complete), false},
                                     number(is_complete ? 0 : progress.next_block),
                                     number(progress.blocks),
                                     number(progress.blocks_done),
                                     number(progress.deleted),
                                     number(progress.redacted),
                                     number(progress.held),
                                     number(progress.batches)};
    run_as_owner(psprintf(kWriteRow, member_name(sweeps_table)), arguments, lengthof(arguments));
}

void release_progress(const SweepProgress &progress) {
    const LOCKTAG tag = slot_tag(progress.table, progress.slot);
    LockRelease(&tag, ExclusiveLock, true);
}

} // namespace idem
