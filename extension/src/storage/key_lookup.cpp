#include "storage/key_lookup.hpp"

#include "server/clock.hpp"
#include "storage/key_places.hpp"

#include <algorithm>

namespace idem {

namespace {

KeyClass class_of(IndexedState state) {
    if (state == IndexedState::absent || state == IndexedState::gone)
        return KeyClass::absent; // the index decides when the key is inserted
    return state == IndexedState::done ? KeyClass::done : KeyClass::other;
}

// As class_of, for a table that takes no new keys, so that its index decides nothing. An expired key is as good as absent
// there.
KeyClass class_elsewhere(const HeapTable &table, const text *scope, const text *key, IndexedState state) {
    if (state == IndexedState::expired)
        return KeyClass::absent;
    return state == IndexedState::gone && !is_settled_absent(table, scope, key) ? KeyClass::other : class_of(state);
}

// The keys of a group that were not found yet.
struct Remaining {
    const text *keys[kKeysPerGroup];
    int indexes[kKeysPerGroup];
    int count;
};

// Classifies the remaining keys by one table.
void classify_remaining(RowFinder *finder, const text *scope, const Remaining &keys, bool takes_new_keys, core::Micros now,
                        KeyClass *classes) {
    const int count = keys.count;
    IndexedState states[kKeysPerGroup];
    if (count == 1)
        states[0] = read_indexed_state(finder, scope, keys.keys[0], now);
    else if (count > 1)
        read_indexed_states(finder, scope, keys.keys, count, now, states);
    for (int i = 0; i < count; i++)
        classes[keys.indexes[i]] =
            takes_new_keys ? class_of(states[i]) : class_elsewhere(*finder->table, scope, keys.keys[i], states[i]);
}

// As classify_group, for a scope that has a ring. `finder` stays at the table that takes new keys. False: begin again.
bool try_classify_in_places(RowFinder *finder, const KeyTable &table, const text *scope, const text *const *keys, int count,
                            core::Micros now, KeyClass *classes) {
    Candidates candidates[kKeysPerGroup];
    for (int i = 0; i < count; i++) {
        candidates[i] = candidates_for(*table.places, scope, keys[i]);
        classes[i] = KeyClass::absent;
    }
    const auto remains = [&](int i, int place, int window) {
        return classes[i] == KeyClass::absent && (window < 0 || candidates[i].contain(place, window));
    };
    const auto may_be_in = [&](int place, int window) {
        for (int i = 0; i < count; i++)
            if (remains(i, place, window))
                return true;
        return false;
    };
    const auto any_remains = [&] { return std::find(classes, classes + count, KeyClass::absent) != classes + count; };
    return visit_places(table.places, table, may_be_in, [&](const HeapTable &heap, const Visited &visited) {
        Remaining remaining;
        remaining.count = 0;
        for (int i = 0; i < count; i++) {
            if (!remains(i, visited.place, visited.sealed_window))
                continue;
            remaining.keys[remaining.count] = keys[i];
            remaining.indexes[remaining.count++] = i;
        }
        if (visited.takes_new_keys) {
            if (finder->table != &heap) {
                close_finder(finder);
                open_finder(finder, heap);
            }
            classify_remaining(finder, scope, remaining, true, now, classes);
        } else {
            RowFinder other;
            open_finder(&other, heap);
            classify_remaining(&other, scope, remaining, false, now, classes);
            close_finder(&other);
        }
        return any_remains();
    });
}

// Returns the time of the reading.
core::Micros classify_in_places(RowFinder *finder, const KeyTable &table, const text *scope, const text *const *keys, int count,
                                KeyClass *classes) {
    for (;;) {
        const core::Micros now = clock_now();
        if (try_classify_in_places(finder, table, scope, keys, count, now, classes))
            return now;
        close_finder(finder);
        await_window(table.places);
    }
}

} // namespace

KeyClass classify(const KeyTable &table, const text *scope, const text *key, core::Micros *at) {
    if (RecoveryInProgress())
        return KeyClass::other;
    RowFinder finder;
    finder.table = nullptr;
    KeyClass result;
    if (table.places != nullptr) {
        *at = classify_in_places(&finder, table, scope, &key, 1, &result);
    } else {
        open_finder(&finder, table);
        *at = clock_now();
        result = class_of(read_indexed_state(&finder, scope, key, *at));
    }
    close_finder(&finder);
    return result;
}

void classify_group(RowFinder *finder, const KeyTable &table, const text *scope, const text *const *keys, int count,
                    KeyClass *classes) {
    if (table.places != nullptr)
        return (void)classify_in_places(finder, table, scope, keys, count, classes);
    if (finder->table == nullptr)
        open_finder(finder, table);
    IndexedState states[kKeysPerGroup];
    read_indexed_states(finder, scope, keys, count, clock_now(), states);
    for (int i = 0; i < count; i++)
        classes[i] = class_of(states[i]);
}

namespace {

using FindOne = FoundRow (*)(const HeapTable &table, const text *scope, const text *key);

// Whether the row decides what becomes of the key, wherever it is. A row in idem_keys that is not completed may be in doubt.
bool decides(const HeapTable &heap, const FoundRow &found, core::Micros now) {
    return found.presence == Presence::busy || found.own_transaction || expires_at(heap, found) > now ||
           (!is_in_ring(found.version) && !is_completed(heap, found));
}

// False: begin again. An expired row counts only where new keys go, and only if no other place has one that decides.
bool try_find_in_places(const KeyTable &table, FindOne find_one, const text *scope, const text *key, FoundRow *result) {
    *result = FoundRow{};
    const core::Micros now = clock_now();
    const Candidates candidates = candidates_for(*table.places, scope, key);
    bool has_moved = false, has_decisive = false;
    const bool is_over = visit_places(
        table.places, table, [&](int place, int window) { return candidates.contain(place, window); },
        [&](const HeapTable &heap, const Visited &visited) {
            FoundRow found = find_one(heap, scope, key);
            if (found.presence == Presence::absent) {
                // Where the key is not inserted, no index finds out that its row was only moving.
                has_moved =
                    has_moved || (!visited.takes_new_keys && find_one == find_dirty && !is_settled_absent(heap, scope, key));
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

FoundRow find_in_places(const KeyTable &table, FindOne find_one, const text *scope, const text *key) {
    FoundRow result;
    if (table.places == nullptr) {
        result = find_one(table, scope, key);
        result.at = clock_now();
        return result;
    }
    hold_placement(table);
    while (!try_find_in_places(table, find_one, scope, key, &result)) {
        check_for_interrupts();
        if (table.places->awaited != nullptr)
            await_window(table.places);
    }
    release_placement(table);
    return result;
}

} // namespace

FoundRow find_row(const KeyTable &table, const text *scope, const text *key) {
    // A standby cannot tell which transactions are in progress, and cannot wait for them. Only the snapshot counts there.
    return RecoveryInProgress() ? find_visible_row(table, scope, key) : find_in_places(table, find_dirty, scope, key);
}

FoundRow find_visible_row(const KeyTable &table, const text *scope, const text *key) {
    return find_in_places(table, find_visible, scope, key);
}

FoundRow find_row_settled(const KeyTable &table, const text *scope, const text *key) {
    for (;;) {
        const FoundRow hint = find_row(table, scope, key);
        if (hint.presence != Presence::absent || RecoveryInProgress())
            return hint;
        // An MVCC scan cannot miss a committed row: the version that its snapshot sees stays in place during the scan.
        PushActiveSnapshot(GetLatestSnapshot());
        const FoundRow settled = find_visible_row(table, scope, key);
        PopActiveSnapshot();
        if (settled.presence == Presence::absent)
            return settled;
        CHECK_FOR_INTERRUPTS();
    }
}

void require_in_snapshot(const KeyTable &table, const FoundRow &found) {
    static constexpr const char *kNouns[lengthof(kKeySpaces)] = {"an idempotency key", "a token", "a lock", "a rate",
                                                                 "a counter"};
    if (!found.in_snapshot)
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not serialize access due to concurrent use of %s", kNouns[static_cast<int>(table.space)]),
                        errhint("The transaction might succeed if retried.")));
}

KeyRow read_row(const KeyTable &table, const FoundRow &found) {
    KeyRow row;
    heap_deform_tuple(found.row, RelationGetDescr(table.relation), row.values, row.nulls);
    return row;
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

} // namespace idem
