// The trigger on the windows of rings, for rows that come other than by a claim.
//
// It fires before the row is there. If the window is in the filter, or is about to be, it is taken out first, and no claim
// looks until this transaction has ended: a claim that still believed in the filter would not find the row.
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "storage/internal_sql.hpp"
#include "storage/ring.hpp"
#include "storage/ring_filter_pages.hpp"

namespace {

using namespace idem;

// Each transaction tells the other sessions, whether the window is in the filter or not: one that was rolled back may have
// taken it out and told nobody. REQUIRES: the window is sealed, or the ring is not registered.
void tell_sessions(Oid map) {
    LockRelationOid(map, ExclusiveLock);
    CacheInvalidateRelcacheByRelid(map);
}

void take_out_of_filter(int ring, int window, bool is_sealed) {
    const Oid map = get_relname_relid(map_name(ring), extension().schema);
    const Oid index = get_relname_relid(filter_name(ring), extension().schema);
    if (!OidIsValid(map))
        return;
    if (is_sealed)
        tell_sessions(map);
    if (!OidIsValid(index))
        return;
    Relation filter = index_open(index, AccessShareLock);
    if (is_slice_in_use(filter, window)) {
        tell_sessions(map);
        drop_slice(filter, window);
    }
    index_close(filter, NoLock);
}

// The row may be retained for longer than all others.
void forget_until(const Ring &ring, int window) {
    if (!ring.window[window].state.has_until())
        return;
    const SqlArgument number = {INT2OID, Int16GetDatum(static_cast<int16>(window)), false};
    (void)run_as_owner(
        psprintf("UPDATE %s SET until = NULL WHERE number OPERATOR(pg_catalog.=) $1", qualified_name(map_name(ring.id))),
        &number, 1);
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
    if (!is_registered(id)) { // a restore that has not come to the registry yet; no claim looks here before it has
        take_out_of_filter(id, number, true);
        return row;
    }
    const Ring &ring = ring_now(id);
    if (number >= ring.windows || !core::is_looked_in(ring.window[number].state.state))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("window \"%s\" is not in use", name),
                        errdetail("No claim would find a row that is inserted there.")));
    take_out_of_filter(id, number, ring.window[number].state.state == core::WindowState::sealed);
    forget_until(ring, number);
    return row;
}
