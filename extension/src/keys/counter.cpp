// idem_hit: how often a key was seen. One statement counts and sets the expiry, so no counter exists without one.
#include "keys/counter.hpp"
#include "keys/claim.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"

namespace {

using namespace idem;

constexpr Column kColumns[] = {{"expires_at", TIMESTAMPTZOID}, {"hits", INT8OID}, {"scope", TEXTOID}, {"key", TEXTOID}};

// A counter whose window is over starts again in place. $3 is the length of the window, or NULL for ever. The clock is read
// once, after the row was waited for.
constexpr const char *kHit =
    "INSERT INTO %s AS c (expires_at, hits, scope, key)"
    " VALUES (coalesce(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $3, 'infinity'), 1, $1, $2)"
    " ON CONFLICT (scope, key) DO UPDATE SET (hits, expires_at) ="
    " (SELECT CASE WHEN c.expires_at OPERATOR(pg_catalog.>) t.now THEN c.hits OPERATOR(pg_catalog.+) 1 ELSE 1 END,"
    " CASE WHEN c.expires_at OPERATOR(pg_catalog.>) t.now THEN c.expires_at"
    " ELSE coalesce(t.now OPERATOR(pg_catalog.+) $3, 'infinity') END"
    " FROM (SELECT pg_catalog.clock_timestamp() AS now OFFSET 0) t)"
    " RETURNING hits";

} // namespace

namespace idem {
constinit Member counters_table = member_table("idem_counters", kColumns, CounterColumn::scope, CounterColumn::key, kAnyChecks);
}

extern "C" {

PG_FUNCTION_INFO_V1(idem_hit);

PGDLLEXPORT Datum idem_hit(PG_FUNCTION_ARGS) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 2);
    const core::Micros window = retention(scope_policy(scope), optional_interval(fcinfo, 1));
    deadline_after(clock_now(), window, "ttl");
    prevent_unless_writable("idem_hit()");
    Interval span{};
    span.time = window;
    const SqlArgument arguments[] = {{TEXTOID, PointerGetDatum(scope), false},
                                     {TEXTOID, PointerGetDatum(key), false},
                                     {INTERVALOID, IntervalPGetDatum(&span), window == core::kForever}};
    Datum hits = 0;
    run_as_owner(psprintf(kHit, member_name(counters_table)), arguments, lengthof(arguments), &hits);
    PG_RETURN_INT64(DatumGetInt64(hits));
}

} // extern "C"
