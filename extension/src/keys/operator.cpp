// Functions for an operator: forget a key, settle one whose holder is gone, or remove a response.
#include "keys/holder.hpp"
#include "keys/wake_up.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/errors.hpp"
#include "server/writable.hpp"
#include "storage/fence.hpp"
#include "storage/key_wait.hpp"
#include "storage/key_write_in_time.hpp"

namespace {

using namespace idem;
using core::Micros;
using core::State;

bool forget(const text *scope, const text *key, const ScopePolicy &policy) {
    const KeyTable table = open_keys(Access::write, KeySpace::keys, scope);
    bool was_live;
    for (;; check_for_interrupts()) {
        FoundRow found = find_row_waiting(table, scope, key, "idem_forget()");
        was_live = false;
        if (found.presence == Presence::absent)
            break;
        prevent_unless_writable("idem_forget()");
        require_in_snapshot(table, found);
        const core::KeyFacts facts = facts_of(read_row(table, found), found.own_transaction, policy.manual_on_lease_expiry);
        if (delete_key(table, &found.version) == Write::done) {
            was_live = !core::is_expired(facts, clock_now()); // it may have waited
            wake_waiters(KeySpace::keys, scope, key);
            break;
        }
    }
    close_keys(table);
    return was_live;
}

enum class Resolution { completed, released };

Resolution resolution_argument(FunctionCallInfo fcinfo, int arg) {
    const char *name = text_to_cstring(required_text(fcinfo, arg, "resolution"));
    if (strcmp(name, "completed") == 0)
        return Resolution::completed;
    if (strcmp(name, "released") == 0)
        return Resolution::released;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown resolution \"%s\"", name),
                    errhint("Use 'completed' or 'released'.")));
    pg_unreachable();
}

// Raises an error unless the key is in doubt, or in progress with an expired lease.
void require_abandoned(const KeyRow &row, const text *key, Micros now) {
    const State state = state_of(row);
    if (state == State::in_doubt)
        return;
    if (state != State::in_progress)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("key \"%s\" is neither in doubt nor abandoned", text_to_cstring(key)),
                        errdetail("It is %s.", state == State::completed ? "completed" : "released")));
    const Micros lease_until = row.time(KeyColumn::lease_until);
    if (lease_until > now)
        ereport(ERROR, (errcode(ERRCODE_IDEM_UNDECIDED), errmsg("key \"%s\" is in flight", text_to_cstring(key)),
                        errdetail("Its holder's lease ends at %s.", timestamptz_to_str(lease_until)),
                        errhint("Wait for the lease's end, or use idem_forget.")));
}

void resolve(const text *scope, const text *key, const ScopePolicy &policy, Resolution resolution, const Response &response) {
    const KeyTable table = open_keys(Access::write, KeySpace::keys, scope);
    for (;; check_for_interrupts()) {
        FoundRow found = find_row_waiting(table, scope, key, "idem_resolve()");
        if (found.presence == Presence::absent)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("there is no key \"%s\"", text_to_cstring(key))));
        KeyRow row = read_row(table, found);
        Micros now = found.at;
        require_abandoned(row, key, now);
        prevent_unless_writable("idem_resolve()");
        require_in_snapshot(table, found);
        // The holder may still be running. The new fence makes its changes stale.
        row.set(KeyColumn::fence, Int64GetDatum(next_fence(DatumGetInt64(row.get(KeyColumn::fence)))));
        if (resolution == Resolution::released)
            set_released(&row);
        const auto compose = [&](Micros at) {
            return resolution == Resolution::released ? row
                                                      : completed_row(row, response, policy, at, is_in_ring(found.version));
        };
        if (replace_key_in_time(table, &found.version, &now, true, compose) == Write::done)
            break;
    }
    close_keys(table);
    if (resolution == Resolution::completed)
        warn_unless_stored(response, policy);
}

bool redact(const text *scope, const text *key) {
    const KeyTable table = open_keys(Access::write, KeySpace::keys, scope);
    bool removed = false;
    for (; !removed; check_for_interrupts()) {
        FoundRow found = find_row_waiting(table, scope, key, "idem_redact()");
        if (found.presence == Presence::absent || !has_response(RelationGetDescr(table.relation), found.row))
            break;
        prevent_unless_writable("idem_redact()");
        require_in_snapshot(table, found);
        KeyRow row = read_row(table, found);
        if (state_of(row) != State::completed) // a later attempt needs the steps
            break;
        remove_response(&row);
        removed = replace_key(table, &found.version, row, true) == Write::done;
    }
    close_keys(table);
    return removed;
}

} // namespace

SQL_FUNCTION(idem_forget) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    PG_RETURN_BOOL(forget(scope, key, scope_policy(scope)));
}

SQL_FUNCTION(idem_resolve) {
    const text *key = key_argument(fcinfo, 0);
    const Resolution resolution = resolution_argument(fcinfo, 1);
    const text *scope = scope_argument(fcinfo, 4);
    if (resolution == Resolution::released && !(PG_ARGISNULL(2) && PG_ARGISNULL(3)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a released key has no response and no status code")));
    resolve(scope, key, scope_policy(scope), resolution, response_arguments(fcinfo, 2, 3));
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_redact) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    scope_policy(scope); // checks the right to use the scope
    PG_RETURN_BOOL(redact(scope, key));
}
