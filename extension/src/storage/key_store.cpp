#include "storage/key_store.hpp"

#include "server/bytes.hpp"
#include "server/clock.hpp"
#include "server/compat.hpp"
#include "server/lock_patience.hpp"
#include "server/writable.hpp"
#include "storage/key_places.hpp"

#include <algorithm>

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

bool may_have_been_deleted(const Probe &found) { return (found.row->t_data->t_infomask & HEAP_XMAX_INVALID) == 0; }

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

} // namespace

// --- Where keys are ----------------------------------------------------------------------------------------------------------

namespace {

const HeapTable &heap_of(const KeyTable &table, const KeyVersion &version) {
    if (is_in_ring(version))
        return table.places->opened[version.table - 1].heap;
    return table;
}

// As heap_of, for a change.
const HeapTable &writable_heap_of(const KeyTable &table, const KeyVersion &version) {
    if (is_in_ring(version) && table.places->looks == 0)
        lock_window_for_writing(table.places, version.table);
    return heap_of(table, version);
}

bool puts_keys_in_ring(const KeyTable &table) { return table.places != nullptr && table.places->rings[0] != nullptr; }

// The number of the table that takes new keys. -1: its window was waited for, and the caller begins again. REQUIRES: a look,
// and no pinned page.
int table_for_new_keys(const KeyTable &table) {
    if (!puts_keys_in_ring(table))
        return 0;
    const Ring &ring = *table.places->rings[0];
    const int number = open_window(table.places, ring, ring.open, RowExclusiveLock);
    if (number > 0)
        return number;
    await_window(table.places);
    return -1;
}

// A table in which keys are looked for.
struct Visited {
    int number;          // KeyVersion::table
    bool takes_new_keys; // those of the scope
    int place;
    int sealed_window; // or -1: every key may be in the table
};

// Calls `visit(heap, Visited)` for the tables that may have one of the keys, as long as it returns true. `may_be_in(place,
// window)` says so of a sealed window. False: a window was waited for, and the caller begins again. REQUIRES: a look.
template <typename MayBeIn, typename Visit> bool visit_places(const KeyTable &table, MayBeIn may_be_in, Visit visit) {
    KeyPlaces *places = table.places;
    bool go_on = true;
    const auto visit_window = [&](int place, int window) {
        const Ring &ring = *places->rings[place];
        const bool is_open = window == ring.open;
        if (place > 0 && ring.window[window].state.generation > places->of_scope.places[place].through)
            return true;
        if (!is_open && !may_be_in(place, window))
            return true;
        const bool takes_new_keys = place == 0 && is_open;
        const LOCKMODE lock = takes_new_keys && places->is_writing ? RowExclusiveLock : AccessShareLock;
        const int number = open_window(places, ring, window, lock);
        if (number != 0)
            go_on = visit(places->opened[number - 1].heap, Visited{number, takes_new_keys, place, is_open ? -1 : window});
        return number != 0;
    };
    for (int place = 0; place < places->of_scope.count && go_on; place++) {
        const Ring *ring = places->rings[place];
        if (ring == nullptr) {
            go_on = visit(table, Visited{0, place == 0, place, -1});
            continue;
        }
        if (is_left_behind(*places, place))
            continue;
        for (int i = 0; i < ring->looked_in_count && go_on; i++)
            if (!visit_window(place, ring->looked_in[i]))
                return false;
        if (go_on && !visit_window(place, ring->open))
            return false;
    }
    return true;
}

// For each place, the sealed windows that may have the key.
struct Candidates {
    uint32 windows[ScopePlaces::kMax];

    bool contain(int place, int window) const { return (windows[place] >> window & 1) != 0; }
};

Candidates candidates_for(const KeyPlaces &places, const text *scope, const text *key) {
    Candidates candidates{};
    for (int i = 0; i < places.of_scope.count; i++)
        if (places.rings[i] != nullptr && !is_left_behind(places, i))
            candidates.windows[i] = windows_to_look_in(*places.rings[i], scope, key);
    return candidates;
}

} // namespace

KeyTable open_keys(Access access, KeySpace space, const text *scope) {
    KeyTable table{open_heap(table_of(space), lock_for(access)), space, nullptr};
    if (space == KeySpace::keys && scope != nullptr)
        table.places = open_places(scope, access == Access::write);
    return table;
}

KeyTable keys_in(Relation table) { return {heap_of_window(table), KeySpace::keys, nullptr}; }

void close_keys(const KeyTable &table) {
    if (table.places != nullptr)
        close_places(table.places);
    close_heap(table);
}

core::Micros fixed_retention(const KeyTable &table) { return table.places == nullptr ? 0 : ring_retention(table.places); }

void begin_look(const KeyTable &table) {
    if (table.places != nullptr)
        begin_look(table.places);
}

void end_look(const KeyTable &table) {
    if (table.places != nullptr)
        end_look(table.places);
}

uint64 look_number(const KeyTable &table) { return table.places == nullptr ? 0 : table.places->times_locked; }

// --- Looking for a key -------------------------------------------------------------------------------------------------------

namespace {

void begin_probing(Prober *prober, const HeapTable &table) {
    prober->table = &table;
    open_cursor(&prober->cursor, table.relation, table.primary_key);
    prober->heap_page = InvalidBuffer;
    InitDirtySnapshot(prober->dirty);
}

} // namespace

namespace {

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

} // namespace

void end_probing(Prober *prober) {
    if (prober->table == nullptr)
        return;
    if (BufferIsValid(prober->heap_page))
        ReleaseBuffer(prober->heap_page);
    close_cursor(&prober->cursor);
    prober->table = nullptr;
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

bool is_completed(const HeapTable &table, const Probe &found) {
    bool is_null;
    const Datum state = heap_getattr(found.row, KeyColumn::state, RelationGetDescr(table.relation), &is_null);
    return static_cast<core::State>(DatumGetChar(state)) == core::State::completed;
}

core::Micros expires_at(const HeapTable &table, const Probe &found) {
    bool is_null;
    return DatumGetTimestampTz(heap_getattr(found.row, KeyColumn::expires_at, RelationGetDescr(table.relation), &is_null));
}

// The row that the active snapshot sees.
Probe probe_visible(const HeapTable &table, const text *scope, const text *key) {
    const Probe visible = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    // A transaction's snapshot still sees a row that others have deleted since, even if this transaction has replaced it.
    Probe own;
    if (IsolationUsesXactSnapshot() && visible.presence == Presence::found && !visible.own_transaction &&
        may_have_been_deleted(visible) && probe_own(table, scope, key, &own))
        return own;
    return visible;
}

// Whether no committed version of the key exists, and none did when the call began. A scan by a snapshot cannot miss a row that
// moves: the version that it sees stays in place.
bool is_settled_absent(const HeapTable &table, const text *scope, const text *key) {
    PushActiveSnapshot(GetLatestSnapshot());
    const Probe settled = probe_by_scan(table, GetActiveSnapshot(), scope, key);
    PopActiveSnapshot();
    return settled.presence == Presence::absent;
}

// What one table shows of a key. `expired`: as done, but its retention is over.
// `gone`: absent, but the index has entries of the key, whose rows may just have moved.
enum class Seen { absent, gone, done, expired, other };

Seen seen_of(const Prober &prober, const Probe &found, core::Micros now) {
    if (found.presence == Presence::absent)
        return prober.has_entries ? Seen::gone : Seen::absent;
    const HeapTable &table = *prober.table;
    if (found.presence != Presence::found || !found.in_snapshot || !is_completed(table, found) || !is_wanted_row(prober, found))
        return Seen::other;
    return expires_at(table, found) > now ? Seen::done : Seen::expired;
}

Seen look_at(Prober *prober, const text *scope, const text *key, core::Micros now) {
    return seen_of(*prober, probe_next(prober, scope, key), now);
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

Glance glance_of(Seen seen) {
    if (seen == Seen::absent || seen == Seen::gone)
        return Glance::absent; // the index decides when the key is inserted
    return seen == Seen::done ? Glance::done : Glance::other;
}

// As glance_of, for a table that takes no new keys, so that its index decides nothing. An expired key is as good as absent
// there.
Glance glance_elsewhere(const HeapTable &table, const text *scope, const text *key, Seen seen) {
    if (seen == Seen::expired)
        return Glance::absent;
    return seen == Seen::gone && !is_settled_absent(table, scope, key) ? Glance::other : glance_of(seen);
}

// The keys of a group that were not found yet.
struct Remaining {
    const text *keys[kKeysPerGroup];
    int indexes[kKeysPerGroup];
    int count;
};

// Looks at the remaining keys in one table.
void look_at_remaining(Prober *prober, const text *scope, const Remaining &keys, bool takes_new_keys, core::Micros now,
                       Glance *glances) {
    const int count = keys.count;
    Seen seen[kKeysPerGroup];
    if (count == 1)
        seen[0] = look_at(prober, scope, keys.keys[0], now);
    else if (count > 1)
        look_at_group(prober, scope, keys.keys, count, now, seen);
    for (int i = 0; i < count; i++)
        glances[keys.indexes[i]] =
            takes_new_keys ? glance_of(seen[i]) : glance_elsewhere(*prober->table, scope, keys.keys[i], seen[i]);
}

// As glance_at_group, for a scope that has a ring. `prober` stays at the table that takes new keys. False: begin again.
bool try_glance_at_places(Prober *prober, const KeyTable &table, const text *scope, const text *const *keys, int count,
                          core::Micros now, Glance *glances) {
    Candidates candidates[kKeysPerGroup];
    for (int i = 0; i < count; i++) {
        candidates[i] = candidates_for(*table.places, scope, keys[i]);
        glances[i] = Glance::absent;
    }
    const auto remains = [&](int i, int place, int window) {
        return glances[i] == Glance::absent && (window < 0 || candidates[i].contain(place, window));
    };
    const auto may_be_in = [&](int place, int window) {
        for (int i = 0; i < count; i++)
            if (remains(i, place, window))
                return true;
        return false;
    };
    const auto any_remains = [&] { return std::find(glances, glances + count, Glance::absent) != glances + count; };
    return visit_places(table, may_be_in, [&](const HeapTable &heap, const Visited &visited) {
        Remaining remaining;
        remaining.count = 0;
        for (int i = 0; i < count; i++) {
            if (!remains(i, visited.place, visited.sealed_window))
                continue;
            remaining.keys[remaining.count] = keys[i];
            remaining.indexes[remaining.count++] = i;
        }
        if (visited.takes_new_keys) {
            if (prober->table != &heap) {
                end_probing(prober);
                begin_probing(prober, heap);
            }
            look_at_remaining(prober, scope, remaining, true, now, glances);
        } else {
            Prober other;
            begin_probing(&other, heap);
            look_at_remaining(&other, scope, remaining, false, now, glances);
            end_probing(&other);
        }
        return any_remains();
    });
}

// Returns the time of the look.
core::Micros glance_at_places(Prober *prober, const KeyTable &table, const text *scope, const text *const *keys, int count,
                              Glance *glances) {
    for (;;) {
        const core::Micros now = clock_now();
        if (try_glance_at_places(prober, table, scope, keys, count, now, glances))
            return now;
        end_probing(prober);
        await_window(table.places);
    }
}

} // namespace

Glance glance(const KeyTable &table, const text *scope, const text *key, core::Micros *at) {
    if (RecoveryInProgress())
        return Glance::other;
    Prober prober;
    prober.table = nullptr;
    Glance result;
    if (table.places != nullptr) {
        *at = glance_at_places(&prober, table, scope, &key, 1, &result);
    } else {
        begin_probing(&prober, table);
        *at = clock_now();
        result = glance_of(look_at(&prober, scope, key, *at));
    }
    end_probing(&prober);
    return result;
}

void glance_at_group(Prober *prober, const KeyTable &table, const text *scope, const text *const *keys, int count,
                     Glance *glances) {
    if (table.places != nullptr)
        return (void)glance_at_places(prober, table, scope, keys, count, glances);
    if (prober->table == nullptr)
        begin_probing(prober, table);
    Seen seen[kKeysPerGroup];
    look_at_group(prober, scope, keys, count, clock_now(), seen);
    for (int i = 0; i < count; i++)
        glances[i] = glance_of(seen[i]);
}

namespace {

// The row that a dirty snapshot sees.
Probe probe_dirty(const HeapTable &table, const text *scope, const text *key) {
    Prober prober;
    begin_probing(&prober, table);
    const Probe result = with_copied_row(probe_next(&prober, scope, key));
    end_probing(&prober);
    return result;
}

using ProbeOne = Probe (*)(const HeapTable &table, const text *scope, const text *key);

// Whether the row decides what becomes of the key, wherever it is. A row in idem_keys that is not completed may be in doubt.
bool decides(const HeapTable &heap, const Probe &probe, core::Micros now) {
    return probe.presence == Presence::busy || probe.own_transaction || expires_at(heap, probe) > now ||
           (!is_in_ring(probe.version) && !is_completed(heap, probe));
}

// False: begin again. An expired row counts only where new keys go, and only if no other place has one that decides.
bool try_probe_places(const KeyTable &table, ProbeOne probe_one, const text *scope, const text *key, Probe *result) {
    *result = Probe{};
    const core::Micros now = clock_now();
    const Candidates candidates = candidates_for(*table.places, scope, key);
    bool has_moved = false, has_decisive = false;
    const bool is_over = visit_places(
        table, [&](int place, int window) { return candidates.contain(place, window); },
        [&](const HeapTable &heap, const Visited &visited) {
            Probe found = probe_one(heap, scope, key);
            if (found.presence == Presence::absent) {
                // Where the key is not inserted, no index finds out that its row was only moving.
                has_moved =
                    has_moved || (!visited.takes_new_keys && probe_one == probe_dirty && !is_settled_absent(heap, scope, key));
                return !has_moved;
            }
            found.version.table = visited.number;
            const bool is_decisive = decides(heap, found, now);
            if (is_decisive ? !has_decisive || found.own_transaction : visited.takes_new_keys && !has_decisive)
                *result = found;
            has_decisive = has_decisive || is_decisive;
            // Others may have deleted the row since the snapshot, and this transaction may have claimed the key again.
            return !is_decisive || (IsolationUsesXactSnapshot() && found.presence == Presence::found &&
                                    !found.own_transaction && may_have_been_deleted(found));
        });
    result->at = now;
    return is_over && !has_moved;
}

Probe probe_places(const KeyTable &table, ProbeOne probe_one, const text *scope, const text *key) {
    Probe result;
    if (table.places == nullptr) {
        result = probe_one(table, scope, key);
        result.at = clock_now();
        return result;
    }
    begin_look(table);
    while (!try_probe_places(table, probe_one, scope, key, &result)) {
        check_for_interrupts();
        if (table.places->awaited != nullptr)
            await_window(table.places);
    }
    end_look(table);
    return result;
}

} // namespace

Probe probe(const KeyTable &table, const text *scope, const text *key) {
    // A standby cannot tell which transactions are in progress, and cannot wait for them. Only the snapshot counts there.
    return RecoveryInProgress() ? probe_snapshot(table, scope, key) : probe_places(table, probe_dirty, scope, key);
}

Probe probe_snapshot(const KeyTable &table, const text *scope, const text *key) {
    return probe_places(table, probe_visible, scope, key);
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
        XactLockTableWait(busy.holder, heap_of(table, busy.version).relation, const_cast<ItemPointer>(&busy.version.tid),
                          XLTW_InsertIndexUnique);
    CHECK_FOR_INTERRUPTS();
}

bool wait_for_holder_within(const KeyTable &table, const Probe &busy, core::Micros patience) {
    if (busy.speculative_token == 0)
        return within_patience(patience, [&] { wait_for_holder(table, busy); });
    wait_for_holder(table, busy); // a short wait, until the holder's insertion is finished
    return true;
}

namespace {

Probe locked_by(TransactionId holder, const KeyVersion &version) {
    Probe busy{};
    busy.presence = Presence::busy;
    busy.holder = holder;
    busy.version = version;
    return busy;
}

} // namespace

void wait_for_transaction(const KeyTable &table, TransactionId holder, const KeyVersion &version) {
    wait_for_holder(table, locked_by(holder, version));
}

bool wait_for_transaction_within(const KeyTable &table, TransactionId holder, const KeyVersion &version,
                                 core::Micros patience) {
    return wait_for_holder_within(table, locked_by(holder, version), patience);
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

bool insert_key(const KeyTable &table, const Datum *values, const bool *nulls, KeyVersion *version) {
    const int number = table_for_new_keys(table);
    if (number < 0)
        return false;
    version->table = number;
    const HeapTable &heap = heap_of(table, *version);
    HeapTuple tuple = form_row(heap, values, nulls);
    const bool is_new = insert_row_if_new(heap, tuple);
    version->tid = tuple->t_self;
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

TransactionId locker_of(const KeyTable &table, const KeyVersion &version) {
    HeapTupleData tuple{};
    tuple.t_self = version.tid;
    Buffer buffer;
    if (!heap_fetch(heap_of(table, version).relation, SnapshotAny, &tuple, &buffer, false))
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

Write lock_key(const KeyTable &table, KeyVersion *version, LockTupleMode mode, LockWaitPolicy wait) {
    return lock_row(writable_heap_of(table, *version), &version->tid, mode, wait);
}

Write replace_key(const KeyTable &table, KeyVersion *version, const Datum *values, const bool *nulls, bool wait) {
    const HeapTable &heap = writable_heap_of(table, *version);
    // heap_update waits for a transaction that holds the row. A caller that may not wait first tries to acquire the row lock
    // that the update needs; the update then has nothing to wait for.
    if (!wait || (table.places != nullptr && table.places->looks > 0)) {
        const Write locked = lock_row(heap, &version->tid, LockTupleNoKeyExclusive, LockWaitSkip);
        if (locked != Write::done)
            return locked;
    }
    HeapTuple tuple = form_row(heap, values, nulls);
    const Write write = update_row(heap, version->tid, tuple);
    if (write == Write::done) {
        version->tid = tuple->t_self;
        CommandCounterIncrement();
    }
    heap_freetuple(tuple);
    return write;
}

bool is_current(const KeyTable &table, const KeyVersion &version) {
    HeapTupleData tuple{};
    tuple.t_self = version.tid;
    Buffer buffer;
    const bool current = heap_fetch(heap_of(table, version).relation, SnapshotSelf, &tuple, &buffer, false);
    if (BufferIsValid(buffer))
        ReleaseBuffer(buffer);
    return current;
}

Write delete_key(const KeyTable &table, KeyVersion *version) {
    const Write write = delete_row(writable_heap_of(table, *version), version->tid);
    if (write == Write::done)
        CommandCounterIncrement();
    return write;
}

bool may_have_keys(const text *scope) {
    const KeyTable table = open_keys(Access::read, KeySpace::keys, nullptr);
    ScanKeyData key;
    ScanKeyEntryInitialize(&key, 0, 1, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID, F_TEXTEQ, PointerGetDatum(scope));
    const IndexedRows rows = begin_indexed_rows(table, table.primary_key, SnapshotAny, &key, 1);
    const bool has_one = next_row(rows) != nullptr;
    end_indexed_rows(rows);
    close_keys(table);
    return has_one;
}

namespace {

// A row like `pattern` with this key.
HeapTuple row_with_key(const HeapTable &table, KeyRow *pattern, const text *key) {
    pattern->set(KeyColumn::key, PointerGetDatum(key));
    return form_row(table, pattern->values, pattern->nulls);
}

} // namespace

KeyInserter open_key_inserter(const KeyTable &table) {
    return {&table, table.places == nullptr ? open_row_batch(table, kMaxInsertedKeys) : nullptr,
            AllocSetContextCreate(CurrentMemoryContext, "idem batch", ALLOCSET_DEFAULT_SIZES)};
}

void close_key_inserter(const KeyInserter &inserter) {
    if (inserter.batch != nullptr)
        close_row_batch(inserter.batch);
    MemoryContextDelete(inserter.memory);
}

bool open_key_target(const KeyInserter &inserter, KeyTarget *target) {
    const int number = table_for_new_keys(*inserter.table);
    if (number < 0)
        return false;
    target->place = {{}, number};
    target->batch =
        inserter.batch != nullptr ? inserter.batch : open_row_batch(heap_of(*inserter.table, target->place), kMaxInsertedKeys);
    return true;
}

bool insert_keys(const KeyInserter &inserter, const KeyTarget &target, const KeyRow &pattern, const text *const *keys,
                 int count) {
    Assert(count <= kMaxInsertedKeys);
    const HeapTable &heap = heap_of(*inserter.table, target.place);
    const MemoryContext outer = MemoryContextSwitchTo(inserter.memory);
    HeapTuple rows[kMaxInsertedKeys];
    KeyRow row = pattern;
    for (int i = 0; i < count; i++)
        rows[i] = row_with_key(heap, &row, keys[i]);
    const bool all_new = insert_rows_if_new(target.batch, rows, count);
    MemoryContextSwitchTo(outer);
    if (target.batch != inserter.batch)
        close_row_batch(target.batch);
    MemoryContextReset(inserter.memory);
    return all_new;
}

} // namespace idem
