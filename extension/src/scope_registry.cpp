// idem_scope_set, idem_scope_drop.
#include "arguments.hpp"
#include "catalog.hpp"
#include "internal_sql.hpp"
#include "key_store.hpp"
#include "scope.hpp"

namespace {

using namespace idem;

enum Argument { scope, ttl, keep_forever, lease, on_lease_expiry, max_response_size, owner, arguments };

// Whether the caller, parameter %s, has the privileges of the scope's owner: asked of the row as it is when it is written, as
// another call may have set an owner while this one waited.
#define IDEM_MAY_USE(caller)                                                                                                   \
    " (c.owner IS NULL OR c.owner OPERATOR(pg_catalog.=) 0::pg_catalog.oid"                                                    \
    " OR pg_catalog.pg_has_role(" caller ", c.owner::pg_catalog.oid, 'USAGE'))"

constexpr const char *kSet =
    "INSERT INTO %s AS c (scope, ttl, keep_forever, lease, on_lease_expiry, max_response_size, owner)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT (scope) DO UPDATE SET ttl = coalesce(excluded.ttl, c.ttl),"
    " keep_forever = coalesce(excluded.keep_forever, c.keep_forever), lease = coalesce(excluded.lease, c.lease),"
    " on_lease_expiry = coalesce(excluded.on_lease_expiry, c.on_lease_expiry),"
    " max_response_size = coalesce(excluded.max_response_size, c.max_response_size), owner = coalesce(excluded.owner, c.owner)"
    " WHERE" IDEM_MAY_USE("$8") " RETURNING 1";

constexpr const char *kDrop =
    "DELETE FROM %s AS c WHERE c.scope OPERATOR(pg_catalog.=) $1 AND" IDEM_MAY_USE("$2") " RETURNING 1";

constexpr Oid kArgumentTypes[arguments] = {TEXTOID, INTERVALOID, BOOLOID, INTERVALOID, TEXTOID, INT4OID, REGROLEOID};

void check_values(FunctionCallInfo fcinfo) {
    if (!PG_ARGISNULL(ttl))
        deadline_after(clock_now(), positive_span_of(PG_GETARG_INTERVAL_P(ttl), "ttl"), "ttl");
    if (!PG_ARGISNULL(lease))
        deadline_after(clock_now(), positive_span_of(PG_GETARG_INTERVAL_P(lease), "lease"), "lease");
    if (!PG_ARGISNULL(on_lease_expiry)) {
        const char *policy = text_to_cstring(PG_GETARG_TEXT_PP(on_lease_expiry));
        if (strcmp(policy, "takeover") != 0 && strcmp(policy, "manual") != 0)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown policy \"%s\" for on_lease_expiry", policy),
                     errhint("Use 'takeover' or 'manual'.")));
    }
    if (!PG_ARGISNULL(max_response_size) && PG_GETARG_INT32(max_response_size) < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_response_size must not be negative")));
    if (!PG_ARGISNULL(owner) && OidIsValid(PG_GETARG_OID(owner)))
        (void)GetUserNameFromId(PG_GETARG_OID(owner), false); // raises for a role that does not exist
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_scope_set);
PG_FUNCTION_INFO_V1(idem_scope_drop);

PGDLLEXPORT Datum idem_scope_set(PG_FUNCTION_ARGS) {
    check_scope_access(scope_argument(fcinfo, scope));
    check_values(fcinfo);
    prevent_unless_writable("idem_scope_set()");
    SqlArgument values[arguments + 1];
    for (int i = 0; i < arguments; i++)
        values[i] = {kArgumentTypes[i], PG_GETARG_DATUM(i), PG_ARGISNULL(i)};
    values[arguments] = {OIDOID, ObjectIdGetDatum(GetUserId()), false};
    if (!run_as_owner(psprintf(kSet, qualified_name("idem_scopes")), values, arguments + 1))
        raise_not_the_scopes(PG_GETARG_TEXT_PP(scope));
    PG_RETURN_VOID();
}

PGDLLEXPORT Datum idem_scope_drop(PG_FUNCTION_ARGS) {
    const text *name = scope_argument(fcinfo, 0);
    check_scope_access(name);
    prevent_unless_writable("idem_scope_drop()");
    const SqlArgument values[] = {{TEXTOID, PointerGetDatum(name), false}, {OIDOID, ObjectIdGetDatum(GetUserId()), false}};
    const bool dropped = run_as_owner(psprintf(kDrop, qualified_name("idem_scopes")), values, lengthof(values));
    if (!dropped)
        check_scope_access(name); // not there, or not the caller's to drop
    PG_RETURN_BOOL(dropped);
}

} // extern "C"
