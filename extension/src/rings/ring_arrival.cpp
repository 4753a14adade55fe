// The trigger on the windows of rings, for rows that come other than by a claim.
//
// It fires before the row is there. If the window is in the filter, or is about to be, it is taken out first, and no claim
// searches until this transaction has ended: a claim that still believed in the filter would not find the row.
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "storage/internal_sql.hpp"
#include "storage/ring.hpp"
#include "storage/ring_filter_pages.hpp"

namespace {

using namespace idem;

// Until this transaction ends, no session searches the ring's windows, and the sweeper neither fills one nor lets one expire.
// Each transaction tells the other sessions, whether the window is in the filter or not: one that was rolled back may have
// taken it out and told nobody.
void stop_searches(Oid map) {
    LockRelationOid(map, ExclusiveLock);
    CacheInvalidateRelcacheByRelid(map);
}

void take_out_of_filter(int ring, int window, Oid map) {
    const Oid index = get_relname_relid(filter_name(ring), extension().schema);
    if (!OidIsValid(index))
        return;
    Relation filter = index_open(index, AccessShareLock);
    if (is_slice_in_use(filter, window)) {
        stop_searches(map);
        drop_slice(filter, window);
    }
    index_close(filter, NoLock);
}

// The window as the map has it now.
core::Window window_in_use(int id, int number, const char *name) {
    const Ring &ring = ring_now(id);
    if (number >= ring.windows || !core::is_searched(ring.window[number].state.state))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("window \"%s\" is not in use", name),
                        errdetail("No claim would find a row that is inserted there.")));
    return ring.window[number].state;
}

// The row may be retained for longer than all others.
void forget_until(int ring, int window) {
    const SqlArgument number = {INT2OID, Int16GetDatum(static_cast<int16>(window)), false};
    (void)run_as_owner(
        psprintf("UPDATE %s SET until = NULL WHERE number OPERATOR(pg_catalog.=) $1", qualified_name(map_name(ring))), &number,
        1);
}

} // namespace

SQL_FUNCTION(idem_ring_row_arrived) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR,
                (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED), errmsg("function was not called by trigger manager")));
    auto *call = reinterpret_cast<TriggerData *>(fcinfo->context);
    const char *name = RelationGetRelationName(call->tg_relation);
    int id, number;
    if (!is_named_as_window(RelationGetRelid(call->tg_relation), &id, &number))
        raise_not_as_installed(name, "It is not a window of a ring.");
    const Datum row = PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(call->tg_event) ? call->tg_newtuple : call->tg_trigtuple);
    const Oid map = get_relname_relid(map_name(id), extension().schema);
    if (!is_registered(id)) { // a restore that has not come to the registry yet; no claim searches here before it has
        if (OidIsValid(map)) {
            stop_searches(map);
            take_out_of_filter(id, number, map);
        }
        return row;
    }
    // The executor's lock on the window keeps an open one from being filled; a sealed one may expire until the map is locked.
    if (window_in_use(id, number, name).state == core::WindowState::sealed) {
        stop_searches(map);
        if (window_in_use(id, number, name).has_until())
            forget_until(id, number);
    }
    take_out_of_filter(id, number, map);
    return row;
}
