#include "storage/key_lookup.hpp"

#include "server/clock.hpp"
#include "storage/key_places.hpp"

#include <algorithm>

namespace idem {

namespace {

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
        table.places, table, [&](int place, int window) { return candidates.contain(place, window); },
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
