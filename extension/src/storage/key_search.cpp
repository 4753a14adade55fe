#include "storage/key_search.hpp"

#include "server/compat.hpp"

namespace idem {

namespace {

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
    found.version.tid = row->t_self;
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
    busy.version.tid = row->t_self;
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

void begin_scan(Scan *scan, const HeapTable &table, Snapshot snapshot, const text *scope, const text *key) {
    ScanKeyEntryInitialize(&scan->keys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(scope));
    ScanKeyEntryInitialize(&scan->keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ,
                           PointerGetDatum(key));
    scan->rows = begin_indexed_rows(table, table.primary_key, snapshot, scan->keys, 2);
}

Probe probe_by_scan(const HeapTable &table, Snapshot snapshot, const text *scope, const text *key) {
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

// The key's row according to earlier commands of this transaction. False: none of them wrote the key.
bool probe_own(const HeapTable &table, const text *scope, const text *key, Probe *own) {
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

// Finds the version in the chain at `entry` that the dirty snapshot sees. As an index scan's fetch (heapam_index_fetch_tuple).
bool fetch_version(Prober *prober, ItemPointerData entry) {
    Relation relation = prober->table->relation;
    const Buffer previous = prober->heap_page;
    prober->heap_page = ReleaseAndReadBuffer(previous, relation, ItemPointerGetBlockNumber(&entry));
    if (prober->heap_page != previous)
        compat_heap_page_prune_opt(relation, prober->heap_page);
    LockBuffer(prober->heap_page, BUFFER_LOCK_SHARE);
    const bool found = heap_hot_search_buffer(&entry, relation, prober->heap_page, &prober->dirty, &prober->row, nullptr, true);
    LockBuffer(prober->heap_page, BUFFER_LOCK_UNLOCK);
    return found;
}

Probe probe_entries(Prober *prober, const IndexEntries &entries, const text *scope, const text *key) {
    prober->has_entries = entries.overflow || entries.count > 0;
    if (entries.overflow)
        return probe_by_scan(*prober->table, &prober->dirty, scope, key);
    for (int i = 0; i < entries.count; i++)
        if (fetch_version(prober, entries.rows[i]))
            return found_with_dirty(&prober->row, prober->heap_page, prober->dirty);
    return Probe{};
}

Probe probe_next(Prober *prober, const text *scope, const text *key) {
    IndexEntries entries;
    find_entries(&prober->cursor, scope, key, &entries);
    return probe_entries(prober, entries, scope, key);
}

// Whether it is the row of the key that the cursor was given. The index has said so, but whatever is wrong with it must not
// make a claim a duplicate.
bool is_wanted_row(const Prober &prober, const Probe &found) {
    bool is_null;
    const Datum scope = heap_getattr(found.row, KeyColumn::scope, RelationGetDescr(prober.table->relation), &is_null);
    int order;
    return prober.cursor.wanted.compare(reinterpret_cast<const char *>(DatumGetPointer(scope)), 2, &order) && order == 0;
}

Seen seen_of(const Prober &prober, const Probe &found, core::Micros now) {
    if (found.presence == Presence::absent)
        return prober.has_entries ? Seen::gone : Seen::absent;
    const HeapTable &table = *prober.table;
    if (found.presence != Presence::found || !found.in_snapshot || !is_completed(table, found) || !is_wanted_row(prober, found))
        return Seen::other;
    return expires_at(table, found) > now ? Seen::done : Seen::expired;
}

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

void begin_probing(Prober *prober, const HeapTable &table) {
    prober->table = &table;
    open_cursor(&prober->cursor, table.relation, table.primary_key);
    prober->heap_page = InvalidBuffer;
    InitDirtySnapshot(prober->dirty);
}

void end_probing(Prober *prober) {
    if (prober->table == nullptr)
        return;
    if (BufferIsValid(prober->heap_page))
        ReleaseBuffer(prober->heap_page);
    close_cursor(&prober->cursor);
    prober->table = nullptr;
}

Seen look_at(Prober *prober, const text *scope, const text *key, core::Micros now) {
    return seen_of(*prober, probe_next(prober, scope, key), now);
}

void look_at_group(Prober *prober, const text *scope, const text *const *keys, int count, core::Micros now, Seen *seen) {
    IndexEntries entries[kKeysPerGroup];
    find_entries_of_group(&prober->cursor, scope, keys, count, entries);
    GroupPages group;
    pin_pages(*prober, entries, count, &group);
    for (int i = 0; i < count; i++) {
        if (BufferIsValid(group.pages[i]))
            ReleaseBuffer(group.pages[i]); // a page with a second pin is never pruned
        prober->cursor.wanted.set(scope, keys[i]);
        seen[i] = seen_of(*prober, probe_entries(prober, entries[i], scope, keys[i]), now);
    }
}

Probe probe_dirty(const HeapTable &table, const text *scope, const text *key) {
    Prober prober;
    begin_probing(&prober, table);
    const Probe result = with_copied_row(probe_next(&prober, scope, key));
    end_probing(&prober);
    return result;
}

Probe probe_visible(const HeapTable &table, const text *scope, const text *key) {
    const Probe visible = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    // A transaction's snapshot still sees a row that others have deleted since, even if this transaction has replaced it.
    Probe own;
    if (IsolationUsesXactSnapshot() && visible.presence == Presence::found && !visible.own_transaction &&
        may_have_been_deleted(visible) && probe_own(table, scope, key, &own))
        return own;
    return visible;
}

bool is_settled_absent(const HeapTable &table, const text *scope, const text *key) {
    PushActiveSnapshot(GetLatestSnapshot());
    const Probe settled = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    PopActiveSnapshot();
    return settled.presence == Presence::absent;
}

} // namespace idem
