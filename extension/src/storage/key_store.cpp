#include "storage/key_store.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/lock_patience.hpp"
#include "server/writable.hpp"

namespace idem {

namespace {

// RowExclusiveLock is what the executor takes to write; it may be held on a standby too, but a reader needs less.
LOCKMODE lock_for(Access access) { return access == Access::write ? RowExclusiveLock : AccessShareLock; }

bool sees(const KeyTable &table, TupleTableSlot *slot) {
    return !IsolationUsesXactSnapshot() || table_tuple_satisfies_snapshot(table.relation, slot, GetActiveSnapshot());
}

Probe found_in(const KeyTable &table, TupleTableSlot *slot) {
    Probe found{};
    found.presence = Presence::found;
    bool should_free;
    found.row = ExecFetchSlotHeapTuple(slot, false, &should_free);
    found.tid = slot->tts_tid;
    found.own_transaction = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(found.row->t_data));
    found.in_snapshot = found.own_transaction || sees(table, slot);
    return found;
}

// What a dirty snapshot noted of the row it just let through.
Probe seen_dirty(const KeyTable &table, TupleTableSlot *slot, const SnapshotData &dirty) {
    if (!TransactionIdIsValid(dirty.xmin) && !TransactionIdIsValid(dirty.xmax))
        return found_in(table, slot);
    Probe busy{};
    busy.presence = Presence::busy;
    busy.holder = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
    busy.speculative_token = dirty.speculativeToken;
    busy.tid = slot->tts_tid;
    return busy;
}

// The same, with a copy of the row in the caller's memory context.
Probe kept(Probe probe) {
    if (probe.presence == Presence::found)
        probe.row = heap_copytuple(probe.row);
    return probe;
}

// The ordinary way to look: an index scan.
struct Scan {
    IndexScanDesc index;
    TupleTableSlot *slot;
    ScanKeyData keys[2];
};

void begin_scan(Scan *scan, const KeyTable &table, Snapshot snapshot, const text *scope, const text *key) {
    ScanKeyEntryInitialize(&scan->keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(scope));
    ScanKeyEntryInitialize(&scan->keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(key));
    scan->slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    scan->index = compat_index_beginscan(table.relation, table.primary_key, snapshot, 2);
    index_rescan(scan->index, scan->keys, 2, nullptr, 0);
}

bool next_of(Scan *scan) { return index_getnext_slot(scan->index, ForwardScanDirection, scan->slot); }

void end_scan(Scan *scan) {
    index_endscan(scan->index);
    ExecDropSingleTupleTableSlot(scan->slot);
}

Probe probe_by_scan(const KeyTable &table, Snapshot snapshot, const text *scope, const text *key) {
    Scan scan;
    begin_scan(&scan, table, snapshot, scope, key);
    Probe result{};
    if (next_of(&scan))
        result = kept(snapshot->snapshot_type == SNAPSHOT_DIRTY ? seen_dirty(table, scan.slot, *snapshot)
                                                                : found_in(table, scan.slot));
    end_scan(&scan);
    return result;
}

bool may_have_been_deleted(const Probe &found) { return (found.row->t_data->t_infomask & HEAP_XMAX_INVALID) == 0; }

// What earlier commands of this transaction made of the key: false if they made nothing of it.
bool probe_own(const KeyTable &table, const text *scope, const text *key, Probe *own) {
    const Snapshot active = GetActiveSnapshot();
    bool is_written = false;
    *own = Probe{};
    Scan scan;
    begin_scan(&scan, table, SnapshotAny, scope, key);
    while (own->presence == Presence::absent && next_of(&scan)) {
        const Probe version = found_in(table, scan.slot);
        if (!version.own_transaction || HeapTupleHeaderGetCmin(version.row->t_data) >= active->curcid)
            continue;
        is_written = true;
        if (table_tuple_satisfies_snapshot(table.relation, scan.slot, active))
            *own = kept(version);
    }
    end_scan(&scan);
    return is_written;
}

// The indexes whose conflict means "this key is taken": the primary key, and its double while it is being rebuilt.
List *arbiters_among(const ResultRelInfo *target) {
    List *arbiters = NIL;
    for (int i = 0; i < target->ri_NumIndices; i++) {
        Form_pg_index form = target->ri_IndexRelationDescs[i]->rd_index;
        if (form->indisunique && form->indnkeyatts == 2 && form->indkey.values[0] == KeyColumn::scope &&
            form->indkey.values[1] == KeyColumn::key)
            arbiters = lappend_oid(arbiters, form->indexrelid);
    }
    return arbiters;
}

// The executor's own way, for a table to which somebody added indexes.
bool insert_all_index_entries(const KeyTable &table, HeapTuple tuple, IndexUniqueCheck check, bool only_summarizing) {
    const bool speculative = check == UNIQUE_CHECK_PARTIAL;
    EState *state = CreateExecutorState();
    ResultRelInfo *target = makeNode(ResultRelInfo);
    InitResultRelInfo(target, table.relation, 1, nullptr, 0);
    ExecOpenIndices(target, speculative);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsHeapTuple);
    ExecStoreHeapTuple(tuple, slot, false);
    slot->tts_tid = tuple->t_self;
    slot->tts_tableOid = RelationGetRelid(table.relation);
    bool conflict = false;
    compat_insert_index_tuples(target, slot, state, speculative, &conflict, arbiters_among(target), only_summarizing);
    ExecCloseIndices(target);
    ExecDropSingleTupleTableSlot(slot);
    FreeExecutorState(state);
    return !conflict;
}

// Index entries for a new version; false when a unique check that does not raise found a rival.
bool insert_index_entries(const KeyTable &table, HeapTuple tuple, IndexUniqueCheck check, bool only_summarizing = false) {
    if (table.has_more_indexes)
        return insert_all_index_entries(table, tuple, check, only_summarizing);
    TupleDesc layout = RelationGetDescr(table.relation);
    Datum values[2];
    bool nulls[2];
    values[0] = heap_getattr(tuple, KeyColumn::scope, layout, &nulls[0]);
    values[1] = heap_getattr(tuple, KeyColumn::key, layout, &nulls[1]);
    // A B-tree asks nothing of the IndexInfo.
    return index_insert(table.primary_key, values, nulls, &tuple->t_self, table.relation, check, false, nullptr);
}

HeapTuple form_row(const KeyTable &table, const KeyRow &row) {
    HeapTuple tuple =
        heap_form_tuple(RelationGetDescr(table.relation), const_cast<Datum *>(row.values), const_cast<bool *>(row.nulls));
    tuple->t_tableOid = RelationGetRelid(table.relation);
    return tuple;
}

Write write_result(const KeyTable &table, TM_Result result, const TM_FailureData &failure) {
    switch (result) {
    case TM_Ok:
        return Write::done;
    case TM_Updated:
    case TM_Deleted:
        // What a later version says under a transaction snapshot is for the next probe to find out, and to raise 40001.
        return Write::changed;
    case TM_BeingModified:
        return Write::busy;
    default:
        elog(ERROR, "unexpected state %d of a row of \"%s\" (command %u)", result, table_of(table.space).layout.name,
             failure.cmax);
    }
    pg_unreachable();
}

} // namespace

KeyTable open_keys(Access access, KeySpace space) {
    KeyTable table;
    table.space = space;
    table.relation = open_member(table_of(space), lock_for(access));
    List *indexes = RelationGetIndexList(table.relation);
    table.has_more_indexes = list_length(indexes) > 1;
    list_free(indexes);
    table.primary_key = index_open(compat_primary_key(table.relation), lock_for(access));
    use_bytewise_comparison(table.primary_key);
    return table;
}

void close_keys(const KeyTable &table) {
    index_close(table.primary_key, NoLock);
    table_close(table.relation, NoLock);
}

void begin_probing(Prober *prober, const KeyTable &table) {
    prober->table = &table;
    open_cursor(&prober->cursor, table.relation, table.primary_key);
    prober->heap = table_index_fetch_begin(table.relation);
    prober->slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    InitDirtySnapshot(prober->dirty);
}

Probe probe_next(Prober *prober, const text *scope, const text *key) {
    IndexEntries entries;
    find_entries(&prober->cursor, scope, key, &entries);
    if (entries.overflow)
        return probe_by_scan(*prober->table, &prober->dirty, scope, key);
    for (int i = 0; i < entries.count; i++) {
        bool call_again = false;
        bool all_dead;
        if (table_index_fetch_tuple(prober->heap, &entries.rows[i], &prober->dirty, prober->slot, &call_again, &all_dead))
            return seen_dirty(*prober->table, prober->slot, prober->dirty);
    }
    return Probe{};
}

void end_probing(Prober *prober) {
    ExecDropSingleTupleTableSlot(prober->slot);
    table_index_fetch_end(prober->heap);
    close_cursor(&prober->cursor);
}

Probe probe(const KeyTable &table, const text *scope, const text *key) {
    // A standby cannot tell what is in progress, nor wait for it: there, only what the snapshot sees counts.
    if (RecoveryInProgress())
        return probe_snapshot(table, scope, key);
    Prober prober;
    begin_probing(&prober, table);
    const Probe result = kept(probe_next(&prober, scope, key));
    end_probing(&prober);
    return result;
}

Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key) {
    const Probe seen = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    // A transaction's snapshot goes on seeing a row that others have deleted since, whatever this transaction put in its place.
    Probe own;
    if (IsolationUsesXactSnapshot() && seen.presence == Presence::found && !seen.own_transaction &&
        may_have_been_deleted(seen) && probe_own(table, scope, key, &own))
        return own;
    return seen;
}

Probe probe_settled(const KeyTable &table, const text *scope, const text *key) {
    for (;;) {
        const Probe hint = probe(table, scope, key);
        if (hint.presence != Presence::absent || RecoveryInProgress())
            return hint;
        // An MVCC scan cannot miss a committed row: the version its snapshot sees stays in place while it looks.
        PushActiveSnapshot(GetLatestSnapshot());
        const Probe settled = probe_snapshot(table, scope, key);
        PopActiveSnapshot();
        if (settled.presence == Presence::absent)
            return settled;
        CHECK_FOR_INTERRUPTS();
    }
}

void wait_for_holder(const KeyTable &table, const Probe &busy) {
    if (busy.speculative_token != 0)
        SpeculativeInsertionWait(busy.holder, busy.speculative_token);
    else
        XactLockTableWait(busy.holder, table.relation, const_cast<ItemPointer>(&busy.tid), XLTW_InsertIndexUnique);
    CHECK_FOR_INTERRUPTS();
}

bool wait_for_holder_within(const KeyTable &table, const Probe &busy, core::Micros patience) {
    if (busy.speculative_token == 0)
        return within_patience(patience, [&] { wait_for_holder(table, busy); });
    wait_for_holder(table, busy); // short: the holder is in the act of inserting
    return true;
}

bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const ItemPointerData &version,
                                 core::Micros patience) {
    Probe busy{};
    busy.presence = Presence::busy;
    busy.holder = holder;
    busy.tid = version;
    return wait_for_holder_within(table, busy, patience);
}

Probe probe_waiting(const KeyTable &table, const text *scope, const text *key, const char *function) {
    PreventCommandIfParallelMode(function);
    for (;;) {
        const Probe found = probe_settled(table, scope, key);
        if (found.presence != Presence::busy)
            return found;
        prevent_unless_writable(function);
        wait_for_holder(table, found);
    }
}

void require_in_snapshot(const KeyTable &table, const Probe &found) {
    static constexpr const char *kWhat[kKeySpaces] = {"an idempotency key", "a token", "a lock", "a rate"};
    if (!found.in_snapshot)
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to concurrent use of %s", kWhat[static_cast<int>(table.space)]),
                        errhint("The transaction might succeed if retried.")));
}

KeyRow read_row(const KeyTable &table, const Probe &found) {
    KeyRow row;
    heap_deform_tuple(found.row, RelationGetDescr(table.relation), row.values, row.nulls);
    return row;
}

core::State state_of(const KeyRow &row) { return static_cast<core::State>(DatumGetChar(row.get(KeyColumn::state))); }

core::KeyFacts facts_of(const KeyRow &row, bool own_transaction, bool manual_policy) {
    core::KeyFacts facts{};
    facts.state = state_of(row);
    facts.own_transaction = own_transaction;
    facts.has_fence = !row.is_null(KeyColumn::fence);
    facts.expires_at = row.time(KeyColumn::expires_at);
    facts.lease_until = row.is_null(KeyColumn::lease_until) ? 0 : row.time(KeyColumn::lease_until);
    facts.manual_policy = manual_policy;
    return facts;
}

core::KeyFacts stored_facts(TupleDesc layout, HeapTuple row) {
    bool is_null;
    core::KeyFacts facts{};
    facts.state = static_cast<core::State>(DatumGetChar(heap_getattr(row, KeyColumn::state, layout, &is_null)));
    facts.expires_at = DatumGetTimestampTz(heap_getattr(row, KeyColumn::expires_at, layout, &is_null));
    if (facts.state == core::State::in_progress)
        facts.lease_until = DatumGetTimestampTz(heap_getattr(row, KeyColumn::lease_until, layout, &is_null));
    return facts;
}

bool is_owner(const KeyRow &row, const text *owner) {
    return owner != nullptr && !row.is_null(KeyColumn::owner) && equal_bytes(row.get(KeyColumn::owner), owner);
}

bool is_completed(const KeyTable &table, const Probe &found, core::Micros now) {
    TupleDesc layout = RelationGetDescr(table.relation);
    bool is_null;
    const Datum state = heap_getattr(found.row, KeyColumn::state, layout, &is_null);
    const Datum expires_at = heap_getattr(found.row, KeyColumn::expires_at, layout, &is_null);
    return static_cast<core::State>(DatumGetChar(state)) == core::State::completed && DatumGetTimestampTz(expires_at) > now;
}

bool insert_key(const KeyTable &table, const KeyRow &row, ItemPointer version) {
    const TransactionId self = GetCurrentTransactionId();
    const CommandId command = GetCurrentCommandId(true);
    HeapTuple tuple = form_row(table, row);
    // Others who meet the row before its index entry is settled wait for the token, not for our transaction.
    const uint32 token = SpeculativeInsertionLockAcquire(self);
    HeapTupleHeaderSetSpeculativeToken(tuple->t_data, token);
    heap_insert(table.relation, tuple, command, HEAP_INSERT_SPECULATIVE, nullptr);
    const bool is_unique = insert_index_entries(table, tuple, UNIQUE_CHECK_PARTIAL);
    if (is_unique)
        heap_finish_speculative(table.relation, &tuple->t_self);
    else
        heap_abort_speculative(table.relation, &tuple->t_self);
    SpeculativeInsertionLockRelease(self);
    *version = tuple->t_self;
    heap_freetuple(tuple);
    CommandCounterIncrement();
    return is_unique;
}

Write lock_row(const KeyTable &table, ItemPointer version, LockTupleMode mode, LockWaitPolicy wait) {
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(table.relation), &TTSOpsBufferHeapTuple);
    TM_FailureData failure{};
    const uint8 flags = mode == LockTupleKeyShare ? TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS : 0;
    const TM_Result result = table_tuple_lock(table.relation, version, InvalidSnapshot, slot, GetCurrentCommandId(true), mode,
                                              wait, flags, &failure);
    ExecDropSingleTupleTableSlot(slot);
    return result == TM_WouldBlock ? Write::busy : write_result(table, result, failure);
}

namespace {

bool is_open_elsewhere(TransactionId transaction) {
    return !TransactionIdIsCurrentTransactionId(transaction) && TransactionIdIsInProgress(transaction);
}

TransactionId open_member_of(MultiXactId lockers, bool only_locked) {
    TransactionId found = InvalidTransactionId;
    MultiXactMember *members;
    const int count = GetMultiXactIdMembers(lockers, &members, false, only_locked);
    for (int i = 0; i < count && !TransactionIdIsValid(found); i++)
        if (is_open_elsewhere(members[i].xid))
            found = members[i].xid;
    if (count > 0)
        pfree(members);
    return found;
}

} // namespace

TransactionId locker_of(const KeyTable &table, const ItemPointerData &version) {
    HeapTupleData tuple{};
    tuple.t_self = version;
    Buffer buffer;
    if (!heap_fetch(table.relation, SnapshotAny, &tuple, &buffer, false))
        return InvalidTransactionId;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    const TransactionId lockers = HeapTupleHeaderGetRawXmax(tuple.t_data);
    const uint16 flags = tuple.t_data->t_infomask;
    UnlockReleaseBuffer(buffer);
    if ((flags & HEAP_XMAX_INVALID) != 0)
        return InvalidTransactionId;
    if ((flags & HEAP_XMAX_IS_MULTI) != 0)
        return open_member_of(lockers, HEAP_XMAX_IS_LOCKED_ONLY(flags));
    return is_open_elsewhere(lockers) ? lockers : InvalidTransactionId;
}

namespace {

Write update_row(const KeyTable &table, ItemPointer version, HeapTuple tuple) {
    TM_FailureData failure{};
    IndexNeeds needs;
    const TM_Result result = compat_heap_update(table.relation, version, tuple, GetCurrentCommandId(true), &failure, &needs);
    if (result == TM_Ok && needs != IndexNeeds::none)
        insert_index_entries(table, tuple, UNIQUE_CHECK_YES, needs == IndexNeeds::summarizing);
    return write_result(table, result, failure);
}

} // namespace

Write replace_key(const KeyTable &table, ItemPointer version, const KeyRow &row, bool wait) {
    // heap_update waits for whoever holds the row. Who must not wait takes the lock that the update needs first, unless that
    // would mean waiting; then the update has nothing left to wait for.
    if (!wait) {
        const Write locked = lock_row(table, version, LockTupleNoKeyExclusive, LockWaitSkip);
        if (locked != Write::done)
            return locked;
    }
    HeapTuple tuple = form_row(table, row);
    const Write write = update_row(table, version, tuple);
    if (write == Write::done) {
        *version = tuple->t_self;
        CommandCounterIncrement();
    }
    heap_freetuple(tuple);
    return write;
}

bool is_current(const KeyTable &table, const ItemPointerData &version) {
    HeapTupleData tuple{};
    tuple.t_self = version;
    Buffer buffer;
    const bool current = heap_fetch(table.relation, SnapshotSelf, &tuple, &buffer, false);
    if (BufferIsValid(buffer))
        ReleaseBuffer(buffer);
    return current;
}

Write delete_key(const KeyTable &table, ItemPointer version) {
    TM_FailureData failure{};
    const TM_Result result = compat_heap_delete(table.relation, version, GetCurrentCommandId(true), &failure);
    const Write write = write_result(table, result, failure);
    if (write == Write::done)
        CommandCounterIncrement();
    return write;
}

namespace {

// As many rows as fill a few pages are written at a time; their index entries follow while the pages are at hand.
constexpr int kRowsPerChunk = 1000;

struct Chunk {
    TupleTableSlot *slots[kRowsPerChunk];
    MemoryContext memory;
};

Chunk *make_chunk(const KeyTable &table, int rows) {
    auto *chunk = static_cast<Chunk *>(palloc(sizeof(Chunk)));
    // A copy, because a slot counts its references to the relation's own descriptor one by one.
    TupleDesc layout = CreateTupleDescCopy(RelationGetDescr(table.relation));
    for (int i = 0; i < rows; i++)
        chunk->slots[i] = MakeSingleTupleTableSlot(layout, &TTSOpsHeapTuple);
    chunk->memory = AllocSetContextCreate(CurrentMemoryContext, "idem batch", ALLOCSET_DEFAULT_SIZES);
    return chunk;
}

void free_chunk(Chunk *chunk, int rows) {
    for (int i = 0; i < rows; i++)
        ExecDropSingleTupleTableSlot(chunk->slots[i]);
    MemoryContextDelete(chunk->memory);
    pfree(chunk);
}

// The rows of one chunk and their index entries; false at the first key that somebody else has or is inserting.
bool insert_chunk(const KeyTable &table, Chunk *chunk, const KeyRow &pattern, const text *const *keys, int count) {
    const MemoryContext outer = MemoryContextSwitchTo(chunk->memory);
    KeyRow row = pattern;
    for (int i = 0; i < count; i++) {
        row.set(KeyColumn::key, PointerGetDatum(keys[i]));
        ExecStoreHeapTuple(form_row(table, row), chunk->slots[i], false);
    }
    heap_multi_insert(table.relation, chunk->slots, count, GetCurrentCommandId(true), 0, nullptr);
    bool all_new = true;
    for (int i = 0; all_new && i < count; i++) {
        bool should_free;
        HeapTuple tuple = ExecFetchSlotHeapTuple(chunk->slots[i], false, &should_free);
        tuple->t_self = chunk->slots[i]->tts_tid;
        // The check that neither raises nor waits: a batch that is half done must not sleep on a rival.
        all_new = insert_index_entries(table, tuple, UNIQUE_CHECK_PARTIAL);
    }
    for (int i = 0; i < count; i++)
        ExecClearTuple(chunk->slots[i]);
    MemoryContextSwitchTo(outer);
    MemoryContextReset(chunk->memory);
    return all_new;
}

} // namespace

bool insert_keys(const KeyTable &table, const KeyRow &pattern, const text *const *keys, int count) {
    const int rows = Min(count, kRowsPerChunk);
    Chunk *chunk = make_chunk(table, rows);
    bool all_new = true;
    // Rows that are only deleted again would look like an uncommitted holder until we end; rows of an aborted
    // subtransaction are nobody's at once.
    in_subtransaction([&] {
        for (int done = 0; all_new && done < count; done += rows) {
            CHECK_FOR_INTERRUPTS();
            all_new = insert_chunk(table, chunk, pattern, keys + done, Min(rows, count - done));
        }
        return all_new;
    });
    free_chunk(chunk, rows);
    return all_new;
}

} // namespace idem
