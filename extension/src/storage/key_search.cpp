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

FoundRow found_at(HeapTuple row, Buffer buffer) {
    FoundRow found{};
    found.presence = Presence::found;
    found.row = row;
    found.version.tid = row->t_self;
    found.own_transaction = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
    found.in_snapshot = found.own_transaction || is_in_snapshot(row, buffer);
    return found;
}

// For a row that a dirty snapshot has just found visible: `dirty` then names the open transactions that inserted or changed it.
FoundRow found_with_dirty(HeapTuple row, Buffer buffer, const SnapshotData &dirty) {
    if (!TransactionIdIsValid(dirty.xmin) && !TransactionIdIsValid(dirty.xmax))
        return found_at(row, buffer);
    FoundRow busy{};
    busy.presence = Presence::busy;
    busy.holder = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
    busy.speculative_token = dirty.speculativeToken;
    busy.version.tid = row->t_self;
    return busy;
}

HeapTuple row_of(TupleTableSlot *slot) { return reinterpret_cast<BufferHeapTupleTableSlot *>(slot)->base.tuple; }
Buffer buffer_of(TupleTableSlot *slot) { return reinterpret_cast<BufferHeapTupleTableSlot *>(slot)->buffer; }

// Replaces the row by a copy in the caller's memory context.
FoundRow with_copied_row(FoundRow found) {
    if (found.presence == Presence::found)
        found.row = heap_copytuple(found.row);
    return found;
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

FoundRow find_by_scan(const HeapTable &table, Snapshot snapshot, const text *scope, const text *key) {
    Scan scan;
    begin_scan(&scan, table, snapshot, scope, key);
    FoundRow result{};
    if (TupleTableSlot *slot = next_row(scan.rows))
        result = with_copied_row(snapshot->snapshot_type == SNAPSHOT_DIRTY
                                     ? found_with_dirty(row_of(slot), buffer_of(slot), *snapshot)
                                     : found_at(row_of(slot), buffer_of(slot)));
    end_indexed_rows(scan.rows);
    return result;
}

// The key's row according to earlier commands of this transaction. False: none of them wrote the key.
bool find_own(const HeapTable &table, const text *scope, const text *key, FoundRow *own) {
    const Snapshot active = GetActiveSnapshot();
    bool is_written = false;
    *own = FoundRow{};
    Scan scan;
    begin_scan(&scan, table, SnapshotAny, scope, key);
    TupleTableSlot *slot;
    while (own->presence == Presence::absent && (slot = next_row(scan.rows)) != nullptr) {
        const FoundRow version = found_at(row_of(slot), buffer_of(slot));
        if (!version.own_transaction || HeapTupleHeaderGetCmin(version.row->t_data) >= active->curcid)
            continue;
        is_written = true;
        if (table_tuple_satisfies_snapshot(table.relation, slot, active))
            *own = with_copied_row(version);
    }
    end_indexed_rows(scan.rows);
    return is_written;
}

// REQUIRES: the row's page is pinned in `buffer`.
bool is_replaced_by(HeapTuple row, Buffer buffer, ItemPointerData version, TransactionId writer) {
    LockBuffer(buffer, BUFFER_LOCK_SHARE); // others may lock the row, which changes how its xmax is to be read
    const bool is_it = !ItemPointerEquals(&row->t_self, &version) && ItemPointerEquals(&row->t_data->t_ctid, &version) &&
                       !(row->t_data->t_infomask & HEAP_XMAX_INVALID) && HeapTupleHeaderGetUpdateXid(row->t_data) == writer;
    LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
    return is_it;
}

// Finds the version in the chain at `entry` that the dirty snapshot sees. As an index scan's fetch (heapam_index_fetch_tuple).
bool fetch_version(RowFinder *finder, ItemPointerData entry) {
    Relation relation = finder->table->relation;
    const Buffer previous = finder->heap_page;
    finder->heap_page = ReleaseAndReadBuffer(previous, relation, ItemPointerGetBlockNumber(&entry));
    if (finder->heap_page != previous)
        compat_heap_page_prune_opt(relation, finder->heap_page);
    LockBuffer(finder->heap_page, BUFFER_LOCK_SHARE);
    const bool found = heap_hot_search_buffer(&entry, relation, finder->heap_page, &finder->dirty, &finder->row, nullptr, true);
    LockBuffer(finder->heap_page, BUFFER_LOCK_UNLOCK);
    return found;
}

FoundRow find_in_entries(RowFinder *finder, const IndexEntries &entries, const text *scope, const text *key) {
    finder->has_entries = entries.overflow || entries.count > 0;
    if (entries.overflow)
        return find_by_scan(*finder->table, &finder->dirty, scope, key);
    for (int i = 0; i < entries.count; i++)
        if (fetch_version(finder, entries.rows[i]))
            return found_with_dirty(&finder->row, finder->heap_page, finder->dirty);
    return FoundRow{};
}

FoundRow find_next(RowFinder *finder, const text *scope, const text *key) {
    IndexEntries entries;
    find_entries(&finder->cursor, scope, key, &entries);
    return find_in_entries(finder, entries, scope, key);
}

// Whether it is the row of the key that the cursor was given. The index has said so, but whatever is wrong with it must not
// make a claim a duplicate.
bool is_wanted_row(const RowFinder &finder, const FoundRow &found) {
    bool is_null;
    const Datum scope = heap_getattr(found.row, KeyColumn::scope, RelationGetDescr(finder.table->relation), &is_null);
    int order;
    return finder.cursor.wanted.compare(reinterpret_cast<const char *>(DatumGetPointer(scope)), 2, &order) && order == 0;
}

IndexedState indexed_state_of(const RowFinder &finder, const FoundRow &found, core::Micros now) {
    if (found.presence == Presence::absent)
        return finder.has_entries ? IndexedState::gone : IndexedState::absent;
    const HeapTable &table = *finder.table;
    if (found.presence != Presence::found || !found.in_snapshot || !is_completed(table, found) || !is_wanted_row(finder, found))
        return IndexedState::other;
    return expires_at(table, found) > now ? IndexedState::done : IndexedState::expired;
}

// The pages of the rows that a group of keys leads to, pinned, with the rows on their way from memory; InvalidBuffer for a key
// without entries.
struct GroupPages {
    Buffer pages[kKeysPerGroup];
    OffsetNumber offsets[kKeysPerGroup];

    ItemId item(int i) const { return PageGetItemId(BufferGetPage(pages[i]), offsets[i]); }
};

void pin_pages(const RowFinder &finder, const IndexEntries *entries, int count, GroupPages *group) {
    for (int i = 0; i < count; i++) {
        group->pages[i] = InvalidBuffer;
        if (entries[i].count == 0 || entries[i].overflow)
            continue;
        const ItemPointerData row = entries[i].rows[0];
        group->offsets[i] = ItemPointerGetOffsetNumber(&row);
        if (group->offsets[i] > MaxHeapTuplesPerPage)
            continue; // a damaged entry
        group->pages[i] = ReadBuffer(finder.table->relation, ItemPointerGetBlockNumber(&row));
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

void open_finder(RowFinder *finder, const HeapTable &table) {
    finder->table = &table;
    open_cursor(&finder->cursor, table.relation, table.primary_key);
    finder->heap_page = InvalidBuffer;
    InitDirtySnapshot(finder->dirty);
}

void close_finder(RowFinder *finder) {
    if (finder->table == nullptr)
        return;
    if (BufferIsValid(finder->heap_page))
        ReleaseBuffer(finder->heap_page);
    close_cursor(&finder->cursor);
    finder->table = nullptr;
}

IndexedState read_indexed_state(RowFinder *finder, const text *scope, const text *key, core::Micros now) {
    return indexed_state_of(*finder, find_next(finder, scope, key), now);
}

void read_indexed_states(RowFinder *finder, const text *scope, const text *const *keys, int count, core::Micros now,
                         IndexedState *states) {
    IndexEntries entries[kKeysPerGroup];
    find_entries_of_group(&finder->cursor, scope, keys, count, entries);
    GroupPages group;
    pin_pages(*finder, entries, count, &group);
    for (int i = 0; i < count; i++) {
        if (BufferIsValid(group.pages[i]))
            ReleaseBuffer(group.pages[i]); // a page with a second pin is never pruned
        finder->cursor.wanted.set(scope, keys[i]);
        states[i] = indexed_state_of(*finder, find_in_entries(finder, entries[i], scope, keys[i]), now);
    }
}

FoundRow find_dirty(const HeapTable &table, const text *scope, const text *key) {
    RowFinder finder;
    open_finder(&finder, table);
    const FoundRow result = with_copied_row(find_next(&finder, scope, key));
    close_finder(&finder);
    return result;
}

FoundRow find_visible(const HeapTable &table, const text *scope, const text *key) {
    const FoundRow visible = find_by_scan(table, GetActiveSnapshot(), scope, key);
    // A transaction's snapshot still sees a row that others have deleted since, even if this transaction has replaced it.
    FoundRow own;
    if (IsolationUsesXactSnapshot() && visible.presence == Presence::found && !visible.own_transaction &&
        may_have_been_deleted(visible) && find_own(table, scope, key, &own))
        return own;
    return visible;
}

FoundRow find_replaced(const HeapTable &table, const text *scope, const text *key, const FoundRow &by) {
    const TransactionId writer = HeapTupleHeaderGetXmin(by.row->t_data);
    FoundRow replaced{};
    Scan scan;
    begin_scan(&scan, table, SnapshotAny, scope, key);
    TupleTableSlot *slot;
    while (replaced.presence == Presence::absent && (slot = next_row(scan.rows)) != nullptr)
        if (is_replaced_by(row_of(slot), buffer_of(slot), by.version.tid, writer))
            replaced = with_copied_row(found_at(row_of(slot), buffer_of(slot)));
    end_indexed_rows(scan.rows);
    replaced.version.table = by.version.table;
    return replaced;
}

bool is_settled_absent(const HeapTable &table, const text *scope, const text *key) {
    PushActiveSnapshot(GetLatestSnapshot());
    const FoundRow settled = find_by_scan(table, GetActiveSnapshot(), scope, key);
    PopActiveSnapshot();
    return settled.presence == Presence::absent;
}

} // namespace idem
