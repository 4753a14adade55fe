#include "rings/ring_work.hpp"

#include "rings/ring_filling.hpp"
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "server/lock_wait_limit.hpp"
#include "server/own_settings.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"
#include "storage/key_lookup.hpp"
#include "storage/ring.hpp"
#include "storage/ring_filter_pages.hpp"
#include "storage/scope_places.hpp"

namespace idem {

namespace {

using core::Micros;
using core::RingDue;
using core::RingStep;
using core::WindowState;

constexpr Micros kMapWaitLimit = 100 * 1000; // the longest wait for the map's lock, as claims queue behind it

SqlArgument number_of(int window) { return {INT2OID, Int16GetDatum(static_cast<int16>(window)), false}; }
SqlArgument time_of(Micros time) { return {TIMESTAMPTZOID, TimestampTzGetDatum(time), false}; }
SqlArgument generation_of(int64 generation) { return {INT8OID, Int64GetDatum(generation), false}; }

Oid map_of(int ring) { return get_relname_relid(map_name(ring), extension().schema); }

// Runs a statement on the map, whose name replaces its %s.
template <int count> void change_map(int ring, const char *statement, const SqlArgument (&arguments)[count]) {
    (void)run_as_owner(psprintf(statement, qualified_name(map_name(ring))), arguments, count);
    CacheInvalidateRelcacheByRelid(map_of(ring)); // as the map's trigger does, if it is there
}

bool has_keys(RingWindow &window) {
    Relation table = open_member_if_unlocked(window.table, AccessShareLock);
    if (table == nullptr)
        return true;
    const bool has_blocks = RelationGetNumberOfBlocks(table) > 0;
    relation_close(table, AccessShareLock);
    return has_blocks;
}

RingDue due_of(Ring &ring, const RingAttempts &attempts) {
    core::Window windows[kMaxWindows];
    core::WindowUse uses[kMaxWindows] = {};
    for (int i = 0; i < ring.windows; i++) {
        windows[i] = ring.window[i].state;
        uses[i].is_covered = ring.window[i].is_covered || (!may_be_in_filter(ring, i) && !ring.window[i].is_filled);
    }
    uses[ring.open].has_keys = has_keys(ring.window[ring.open]);
    return core::due_step(windows, uses, ring.windows, ring.retention, clock_now(), attempts.open, attempts.windows);
}

bool lock_map(int ring) {
    bool is_locked = false;
    // A shorter lock_timeout of the caller's is as good a reason to try again later.
    return without_waiting(
               [&] { is_locked = within_wait_limit(kMapWaitLimit, [&] { (void)lock_ring(ring, ExclusiveLock); }); }) &&
           is_locked;
}

int64 greatest_generation(const Ring &ring) {
    int64 greatest = 0;
    for (int i = 0; i < ring.windows; i++)
        greatest = Max(greatest, ring.window[i].state.generation);
    return greatest;
}

bool open_next(const Ring &ring, int window) {
    adopt_ring(ring.id);
    if (!lock_map(ring.id))
        return false;
    if (ring.window[window].state.state != WindowState::empty)
        return false; // another session was faster
    const Micros now = clock_now();
    change_map(ring.id, "UPDATE %s SET state = 'sealed', closed_at = $2, until = NULL WHERE number OPERATOR(pg_catalog.=) $1",
               {number_of(ring.open), time_of(now)});
    change_map(ring.id,
               "UPDATE %s SET state = 'open', opened_at = $2, closed_at = NULL, until = NULL, generation = $3"
               " WHERE number OPERATOR(pg_catalog.=) $1",
               {number_of(window), time_of(now), generation_of(greatest_generation(ring) + 1)});
    return true;
}

bool expire(const Ring &ring, int window) {
    if (!lock_map(ring.id))
        return false;
    const core::Window &state = ring.window[window].state;
    if (state.state != WindowState::sealed || !state.has_until() || state.until > clock_now())
        return false;
    change_map(ring.id, "UPDATE %s SET state = 'expired' WHERE number OPERATOR(pg_catalog.=) $1", {number_of(window)});
    return true;
}

// Claims search the window no more. A transaction that has claimed or read a key in it still has it locked, and a move of a
// scope the map. Neither is waited for, so that nothing waits for the window meanwhile.
bool empty(const Ring &ring, int window) {
    const Oid table = ring.window[window].table.relation;
    if (!ConditionalLockRelationOid(map_of(ring.id), RowExclusiveLock) ||
        !ConditionalLockRelationOid(table, AccessExclusiveLock))
        return false;
    if (OidIsValid(ring.filter)) {
        Relation filter = index_open(ring.filter, AccessShareLock);
        drop_slice(filter, window);
        index_close(filter, NoLock);
    }
    (void)run_as_owner(psprintf("TRUNCATE ONLY %s", qualified_name(ring.window[window].name)), nullptr, 0);
    change_map(ring.id,
               "UPDATE %s SET state = 'empty', until = NULL WHERE number OPERATOR(pg_catalog.=) $1 AND state "
               "OPERATOR(pg_catalog.=) 'expired'",
               {number_of(window)});
    return true;
}

bool empty_filter(const Ring &ring) {
    if (!lock_map(ring.id))
        return false;
    const char *statement = OidIsValid(ring.filter)
                                ? psprintf("REINDEX INDEX %s", qualified_name(filter_name(ring.id)))
                                : psprintf("CREATE INDEX %s ON %s USING idem_filter (number)",
                                           quote_identifier(filter_name(ring.id)), qualified_name(map_name(ring.id)));
    constexpr Setting kNotTheCallers[] = {{"default_tablespace", ""}};
    with_settings(kNotTheCallers, [&] { (void)run_as_owner(statement, nullptr, 0); });
    return true;
}

bool fill(const Ring &ring, int window) {
    const int64 generation = ring.window[window].state.generation;
    const Filled filled = fill_filter(ring, window);
    if (filled.result == Filling::damaged)
        return empty_filter(ring);
    if (filled.result == Filling::blocked)
        return false;
    change_map(ring.id,
               "UPDATE %s SET until = $2 WHERE number OPERATOR(pg_catalog.=) $1 AND generation OPERATOR(pg_catalog.=) $3"
               " AND state OPERATOR(pg_catalog.=) 'sealed'",
               {number_of(window), time_of(filled.until), generation_of(generation)});
    return true;
}

bool take(const Ring &ring, const RingDue &due) {
    switch (due.step) {
    case RingStep::open:
        return open_next(ring, due.window);
    case RingStep::fill:
        return fill(ring, due.window);
    case RingStep::expire:
        return expire(ring, due.window);
    case RingStep::empty:
        return empty(ring, due.window);
    case RingStep::none:
        break;
    }
    pg_unreachable();
}

// One session works on a ring at a time, until its transaction ends. False: another one does. The lock is not the map's, so
// that a session that waits for the map does not wait for the work.
bool lock_for_work(Oid map) {
    LOCKTAG work;
    SET_LOCKTAG_OBJECT(work, MyDatabaseId, RelationRelationId, map, 1);
    return LockAcquire(&work, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

} // namespace

bool take_ring_step(int id, RingAttempts *attempts) {
    const Oid map = map_of(id);
    if (!OidIsValid(map) || !lock_for_work(map) || map_of(id) != map)
        return false; // another session works on the ring, or has dropped it
    Ring &ring = ring_now(id);
    const RingDue due = due_of(ring, *attempts);
    if (due.step == RingStep::none)
        return false;
    if (!take(ring, due)) {
        attempts->open |= due.step == RingStep::open;
        if (due.step != RingStep::open)
            attempts->windows |= uint32{1} << due.window;
    }
    return true;
}

void adopt_ring(int id) {
    ObjectAddress owner;
    ObjectAddressSet(owner, ExtensionRelationId, extension().oid);
    const auto adopt = [&](const char *name) {
        const Oid relation = get_relname_relid(name, extension().schema);
        if (!OidIsValid(relation) || list_member_oid(getAutoExtensionsOfObject(RelationRelationId, relation), extension().oid))
            return;
        ObjectAddress table;
        ObjectAddressSet(table, RelationRelationId, relation);
        recordDependencyOn(&table, &owner, DEPENDENCY_AUTO_EXTENSION);
    };
    adopt(map_name(id));
    for (int window = 0; window < kMaxWindows; window++)
        adopt(window_name(id, window));
}

// --- Moving a scope ----------------------------------------------------------------------------------------------------------

namespace {

void write_places(const text *scope, const ScopePlaces &places) {
    const SqlArgument name = {TEXTOID, PointerGetDatum(scope), false};
    const char *table = member_name(scope_places_table);
    (void)run_as_owner(psprintf("DELETE FROM ONLY %s WHERE scope OPERATOR(pg_catalog.=) $1", table), &name, 1);
    invalidate_member(scope_places_table);
    // Before its first move, and after its last key has left its last ring, a scope has no rows.
    if (places.count == 1 && places.places[0].ring == kInIdemKeys)
        return;
    for (int i = 0; i < places.count; i++) {
        const ScopePlace &place = places.places[i];
        const SqlArgument values[] = {name,
                                      {INT4OID, Int32GetDatum(place.ring), false},
                                      {BOOLOID, BoolGetDatum(place.is_current), false},
                                      {INT8OID, Int64GetDatum(place.through), place.ring == kInIdemKeys || place.is_current}};
        (void)run_as_owner(psprintf("INSERT INTO %s (scope, ring, is_current, through) VALUES ($1, $2, $3, $4)", table), values,
                           lengthof(values));
    }
}

// The places after the move: the new one first, then those that may still have keys.
ScopePlaces moved(const ScopePlaces &from, int ring, int64 through, const text *scope) {
    ScopePlaces to{};
    to.places[to.count++] = {ring, true, 0};
    for (int i = 0; i < from.count; i++) {
        if (from.places[i].ring == ring)
            continue;
        if (to.count == ScopePlaces::kMax)
            ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                            errmsg("scope \"%s\" still has keys in too many places", text_to_cstring(scope)),
                            errdetail("It has left %d rings and cannot leave another one.", ScopePlaces::kMax - 1),
                            errhint("Try again when keys have expired there and the sweeper has run.")));
        ScopePlace left = from.places[i];
        left.through = left.is_current ? through : left.through;
        left.is_current = false;
        to.places[to.count++] = left;
    }
    return to;
}

ScopePlaces places_now(const text *scope) {
    const ScopePlaces places = read_places(scope);
    return places.count > 0 ? places : kOnlyIdemKeys;
}

} // namespace

void move_scope(const text *scope, int ring) {
    if (places_now(scope).current() == ring)
        return;
    // Waits for all claims, and keeps new ones waiting.
    relation_close(open_member(table_of(KeySpace::keys), ShareLock), NoLock);
    relation_close(open_member(scope_places_table, ShareRowExclusiveLock), NoLock);
    const ScopePlaces from = places_now(scope);
    const int left = from.current();
    if (left == ring)
        return;
    for (const int id : {Min(left, ring), Max(left, ring)})
        if (id != kInIdemKeys)
            (void)lock_ring(id, ExclusiveLock);
    int64 through = 0;
    if (left != kInIdemKeys) {
        const Ring &locked = lock_ring(left, ExclusiveLock);
        through = locked.window[locked.open].state.generation;
    }
    write_places(scope, moved(from, ring, through, scope));
}

namespace {

bool is_left_behind(const ScopePlace &place, const text *scope) {
    return place.ring == kInIdemKeys ? !may_have_keys(scope) : !may_have_keys_through(ring_now(place.ring), place.through);
}

} // namespace

void forget_left_places() {
    Relation table = open_member_if_unlocked(scope_places_table, ShareRowExclusiveLock);
    if (table == nullptr)
        return; // a scope is being moved
    relation_close(table, NoLock);
    ListCell *cell;
    foreach (cell, scopes_with_places()) {
        const auto *scope = static_cast<const text *>(lfirst(cell));
        const ScopePlaces places = read_places(scope);
        ScopePlaces kept{};
        for (int i = 0; i < places.count; i++)
            if (places.places[i].is_current || !is_left_behind(places.places[i], scope))
                kept.places[kept.count++] = places.places[i];
        if (kept.count < places.count || (kept.count == 1 && kept.current() == kInIdemKeys))
            write_places(scope, kept);
    }
}

} // namespace idem

using namespace idem;

SQL_FUNCTION(idem_ring_check) {
    for (Member *member : {&table_of(KeySpace::keys), &ring_registry, &scope_places_table})
        relation_close(open_member(*member, AccessShareLock), NoLock);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_ring_adopt) {
    adopt_ring(PG_GETARG_INT32(0));
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_ring_rebuild_filter) {
    const int id = ring_named(required_text(fcinfo, 0, "ring"));
    prevent_unless_writable("idem_ring_rebuild_filter()");
    if (!lock_for_work(map_of(id)))
        ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE), errmsg("another session is working on the ring")));
    const Ring &ring = ring_now(id);
    if (!ring.filter_is_intact) {
        (void)lock_ring(id, ExclusiveLock);
        (void)empty_filter(ring);
        PG_RETURN_VOID();
    }
    for (int i = 0; i < ring.searched_count; i++)
        (void)fill(ring, ring.searched[i]);
    PG_RETURN_VOID();
}
