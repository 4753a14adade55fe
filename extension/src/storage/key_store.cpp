#include "storage/key_store.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/lock_patience.hpp"
#include "server/writable.hpp"

namespace idem {

namespace {

// The executor's lock modes. A standby allows both.
LOCKMODE lock_for(Access access) { return access == Access::write ? RowExclusiveLock : AccessShareLock; }

// REQUIRES: the row's page is pinned in `buffer`.
bool is_in_snapshot(HeapTuple row, Buffer buffer) {
    if (!IsolationUsesXactSnapshot())
        return true;
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    const bool visible = HeapTupleSatisfiesVisibility(row, GetActiveSnapshot(), buffer);
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    return visible;
}

Probe found_at(HeapTuple row, Buffer buffer) {
    Probe found{};
    found.presence = Presence::found;
    found.row = row;
    found.tid = row->t_self;
    found.own_transaction = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
    found.in_snapshot = found.own_transaction || is_in_snapshot(row, buffer);
    return found;
}

// For a row that a dirty snapshot has just found visible: `dirty` then names the open transactions that inserted or changed it.
Probe found_with_dirty(HeapTuple row, Buffer buffer, const SnapshotData &dirty) {
    if (!TransactionIdIsValid(dirty.xmin) && !TransactionIdIsValid(dirty.xmax))
        return found_at(row, buffer);
    Probe busy{};
    busy.presence = Presence::busy;
    busy.holder = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
    busy.speculative_token = dirty.speculativeToken;
    busy.tid = row->t_self;
    return busy;
}

HeapTuple row_of(TupleTableSlot *slot) { return reinterpret_cast<BufferHeapTupleTableSlot *>(slot)->base.tuple; }
Buffer buffer_of(TupleTableSlot *slot) { return reinterpret_cast<BufferHeapTupleTableSlot *>(slot)->buffer; }

// Replaces the row by a copy in the caller's memory context.
Probe with_copied_row(Probe probe) {
    if (probe.presence == Presence::found)
        probe.row = heap_copytuple(probe.row);
    return probe;
}

// An ordinary index scan for one key.
struct Scan {
    ScanKeyData keys[2];
    IndexedRows rows;
};

void begin_scan(Scan *scan, const KeyTable &table, Snapshot snapshot, const text *scope, const text *key) {
    ScanKeyEntryInitialize(&scan->keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(scope));
    ScanKeyEntryInitialize(&scan->keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(key));
    scan->rows = begin_indexed_rows(table, table.primary_key, snapshot, scan->keys, 2);
}

Probe probe_by_scan(const KeyTable &table, Snapshot snapshot, const text *scope, const text *key) {
    Scan scan;
    begin_scan(&scan, table, snapshot, scope, key);
    Probe result{};
    if (TupleTableSlot *slot = next_row(scan.rows))
        result = with_copied_row(snapshot->snapshot_type == SNAPSHOT_DIRTY
                                     ? found_with_dirty(row_of(slot), buffer_of(slot), *snapshot)
                                     : found_at(row_of(slot), buffer_of(slot)));
    end_indexed_rows(scan.rows);
    return result;
}

bool may_have_been_deleted(const Probe &found) { return (found.row->t_data->t_infomask & HEAP_XMAX_INVALID) == 0; }

// The key's row according to earlier commands of this transaction. False: none of them wrote the key.
bool probe_own(const KeyTable &table, const text *scope, const text *key, Probe *own) {
    const Snapshot active = GetActiveSnapshot();
    bool is_written = false;
    *own = Probe{};
    Scan scan;
    begin_scan(&scan, table, SnapshotAny, scope, key);
    TupleTableSlot *slot;
    while (own->presence == Presence::absent && (slot = next_row(scan.rows)) != nullptr) {
        const Probe version = found_at(row_of(slot), buffer_of(slot));
        if (!version.own_transaction || HeapTupleHeaderGetCmin(version.row->t_data) >= active->curcid)
            continue;
        is_written = true;
        if (table_tuple_satisfies_snapshot(table.relation, slot, active))
            *own = with_copied_row(version);
    }
    end_indexed_rows(scan.rows);
    return is_written;
}

} // namespace

KeyTable open_keys(Access access, KeySpace space) { return {open_heap(table_of(space), lock_for(access)), space}; }

void close_keys(const KeyTable &table) { close_heap(table); }

void begin_probing(Prober *prober, const KeyTable &table) {
    prober->table = &table;
    open_cursor(&prober->cursor, table.relation, table.primary_key);
    prober->heap_page = InvalidBuffer;
    InitDirtySnapshot(prober->dirty);
}

namespace {

// Finds the version in the chain at `entry` that the dirty snapshot sees. As an index scan's fetch (heapam_index_fetch_tuple).
bool fetch_version(Prober *prober, ItemPointerData entry) {
    Relation relation = prober->table->relation;
    const Buffer previous = prober->heap_page;
    prober->heap_page = ReleaseAndReadBuffer(previous, relation, ItemPointerGetBlockNumber(&entry));
    if (prober->heap_page != previous)
        heap_page_prune_opt(relation, prober->heap_page);
    LockBuffer(prober->heap_page, BUFFER_LOCK_SHARE);
    const bool found = heap_hot_search_buffer(&entry, relation, prober->heap_page, &prober->dirty, &prober->row, nullptr, true);
    LockBuffer(prober->heap_page, BUFFER_LOCK_UNLOCK);
    return found;
}

} // namespace

namespace {

Probe probe_entries(Prober *prober, const IndexEntries &entries, const text *scope, const text *key) {
    if (entries.overflow)
        return probe_by_scan(*prober->table, &prober->dirty, scope, key);
    for (int i = 0; i < entries.count; i++)
        if (fetch_version(prober, entries.rows[i]))
            return found_with_dirty(&prober->row, prober->heap_page, prober->dirty);
    return Probe{};
}

} // namespace

Probe probe_next(Prober *prober, const text *scope, const text *key) {
    IndexEntries entries;
    find_entries(&prober->cursor, scope, key, &entries);
    return probe_entries(prober, entries, scope, key);
}

void end_probing(Prober *prober) {
    if (BufferIsValid(prober->heap_page))
        ReleaseBuffer(prober->heap_page);
    close_cursor(&prober->cursor);
}

namespace {

// Whether it is the row of the key that the cursor was given. The index has said so, but whatever is wrong with it must not
// make a claim a duplicate.
bool is_wanted_row(const Prober &prober, const Probe &found) {
    bool is_null;
    const Datum scope = heap_getattr(found.row, KeyColumn::scope, RelationGetDescr(prober.table->relation), &is_null);
    int order;
    return prober.cursor.wanted.compare(reinterpret_cast<const char *>(DatumGetPointer(scope)), 2, &order) && order == 0;
}

Glance glance_of(const Prober &prober, const Probe &found, core::Micros now) {
    if (found.presence == Presence::absent)
        return Glance::absent;
    const bool is_done = found.presence == Presence::found && found.in_snapshot && is_completed(*prober.table, found, now) &&
                         is_wanted_row(prober, found);
    return is_done ? Glance::done : Glance::other;
}

} // namespace

Glance glance(const KeyTable &table, const text *scope, const text *key, core::Micros now) {
    if (RecoveryInProgress())
        return Glance::other;
    Prober prober;
    begin_probing(&prober, table);
    const Glance result = glance_of(prober, probe_next(&prober, scope, key), now);
    end_probing(&prober);
    return result;
}

namespace {

// The pages of the rows that a group of keys leads to, pinned, with the rows on their way from memory; InvalidBuffer for a key
// without entries.
struct GroupPages {
    Buffer pages[kKeysPerGroup];
    OffsetNumber offsets[kKeysPerGroup];

    ItemId item(int i) const { return PageGetItemId(BufferGetPage(pages[i]), offsets[i]); }
};

void pin_pages(const Prober &prober, const IndexEntries *entries, int count, GroupPages *group) {
    for (int i = 0; i < count; i++) {
        group->pages[i] = InvalidBuffer;
        if (entries[i].count == 0 || entries[i].overflow)
            continue;
        const ItemPointerData row = entries[i].rows[0];
        group->offsets[i] = ItemPointerGetOffsetNumber(&row);
        if (group->offsets[i] > MaxHeapTuplesPerPage)
            continue; // a damaged entry
        group->pages[i] = ReadBuffer(prober.table->relation, ItemPointerGetBlockNumber(&row));
        __builtin_prefetch(BufferGetPage(group->pages[i]));
        __builtin_prefetch(group->item(i));
    }
    // Without a lock: a line pointer that is changing at this moment names another place on the page, which costs a prefetch.
    for (int i = 0; i < count; i++) {
        if (!BufferIsValid(group->pages[i]))
            continue;
        const char *row = reinterpret_cast<const char *>(BufferGetPage(group->pages[i])) + ItemIdGetOffset(group->item(i));
        __builtin_prefetch(row);
        __builtin_prefetch(row + 64);
    }
}

} // namespace

void glance_at_group(Prober *prober, const text *scope, const text *const *keys, int count, core::Micros now, Glance *glances) {
    IndexEntries entries[kKeysPerGroup];
    find_entries_of_group(&prober->cursor, scope, keys, count, entries);
    GroupPages group;
    pin_pages(*prober, entries, count, &group);
    for (int i = 0; i < count; i++) {
        if (BufferIsValid(group.pages[i]))
            ReleaseBuffer(group.pages[i]); // a page with a second pin is never pruned
        prober->cursor.wanted.set(scope, keys[i]);
        glances[i] = glance_of(*prober, probe_entries(prober, entries[i], scope, keys[i]), now);
    }
}

Probe probe(const KeyTable &table, const text *scope, const text *key) {
    // A standby cannot tell which transactions are in progress, and cannot wait for them. Only the snapshot counts there.
    if (RecoveryInProgress())
        return probe_snapshot(table, scope, key);
    Prober prober;
    begin_probing(&prober, table);
    const Probe result = with_copied_row(probe_next(&prober, scope, key));
    end_probing(&prober);
    return result;
}

Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key) {
    const Probe visible = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    // A transaction's snapshot still sees a row that others have deleted since, even if this transaction has replaced it.
    Probe own;
    if (IsolationUsesXactSnapshot() && visible.presence == Presence::found && !visible.own_transaction &&
        may_have_been_deleted(visible) && probe_own(table, scope, key, &own))
        return own;
    return visible;
}

Probe probe_settled(const KeyTable &table, const text *scope, const text *key) {
    for (;;) {
        const Probe hint = probe(table, scope, key);
        if (hint.presence != Presence::absent || RecoveryInProgress())
            return hint;
        // An MVCC scan cannot miss a committed row: the version that its snapshot sees stays in place during the scan.
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
    wait_for_holder(table, busy); // a short wait, until the holder's insertion is finished
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
    static constexpr const char *kNouns[lengthof(kKeySpaces)] = {"an idempotency key", "a token", "a lock", "a rate",
                                                                 "a counter"};
    if (!found.in_snapshot)
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to concurrent use of %s", kNouns[static_cast<int>(table.space)]),
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

bool has_response(TupleDesc layout, HeapTuple row) {
    return !heap_attisnull(row, KeyColumn::response, layout) || !heap_attisnull(row, KeyColumn::steps, layout);
}

void remove_response(KeyRow *row) {
    if (!row->is_null(KeyColumn::response))
        row->set(KeyColumn::response_omitted, BoolGetDatum(true));
    row->set_null(KeyColumn::response);
    row->set_null(KeyColumn::steps);
}

core::Micros completion_time(TupleDesc layout, HeapTuple row) {
    const bool is_leased = !heap_attisnull(row, KeyColumn::completed_at, layout);
    bool is_null;
    return DatumGetTimestampTz(
        heap_getattr(row, is_leased ? KeyColumn::completed_at : KeyColumn::created_at, layout, &is_null));
}

bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, ItemPointer version) {
    HeapTuple tuple = form_row(table, values, nulls);
    const bool is_new = insert_row_if_new(table, tuple);
    *version = tuple->t_self;
    heap_freetuple(tuple);
    CommandCounterIncrement();
    return is_new;
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

Write replace_key(const KeyTable &table, ItemPointer version, const Datum *values, const bool *nulls, bool wait) {
    // heap_update waits for a transaction that holds the row. A caller that may not wait first tries to acquire the row lock
    // that the update needs; the update then has nothing to wait for.
    if (!wait) {
        const Write locked = lock_row(table, version, LockTupleNoKeyExclusive, LockWaitSkip);
        if (locked != Write::done)
            return locked;
    }
    HeapTuple tuple = form_row(table, values, nulls);
    const Write write = update_row(table, *version, tuple);
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
    const Write write = delete_row(table, *version);
    if (write == Write::done)
        CommandCounterIncrement();
    return write;
}

namespace {

// A row like `pattern` with this key.
HeapTuple row_with_key(const KeyTable &table, KeyRow *pattern, const text *key) {
    pattern->set(KeyColumn::key, PointerGetDatum(key));
    return form_row(table, pattern->values, pattern->nulls);
}

} // namespace

KeyInserter open_key_inserter(const KeyTable &table) {
    return {&table, open_row_batch(table, kMaxInsertedKeys),
            AllocSetContextCreate(CurrentMemoryContext, "idem batch", ALLOCSET_DEFAULT_SIZES)};
}

void close_key_inserter(const KeyInserter &inserter) {
    close_row_batch(inserter.batch);
    MemoryContextDelete(inserter.memory);
}

bool insert_keys(const KeyInserter &inserter, const KeyRow &pattern, const text *const *keys, int count) {
    Assert(count <= kMaxInsertedKeys);
    const MemoryContext outer = MemoryContextSwitchTo(inserter.memory);
    HeapTuple rows[kMaxInsertedKeys];
    KeyRow row = pattern;
    for (int i = 0; i < count; i++)
        rows[i] = row_with_key(*inserter.table, &row, keys[i]);
    const bool all_new = insert_rows_if_new(inserter.batch, rows, count);
    MemoryContextSwitchTo(outer);
    MemoryContextReset(inserter.memory);
    return all_new;
}

} // namespace idem
