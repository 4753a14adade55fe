// idem_allow: a token bucket for each name. Its row is kept as a key's: the fence column has the time at which the bucket will
// be full again (nanoseconds since PostgreSQL's epoch), created_at when that was said, and the row expires when it is full.
//
// A call that is refused writes nothing and locks nothing, unless the clock was set back. A call that is let through replaces
// the very version that was looked at, so each unit is given out once. What counts is the bucket as it is, not as the
// transaction's snapshot has it.
#include "core/token_bucket.hpp"

#include "keys/claim.hpp"
#include "keys/key_row.hpp"
#include "keys/ticket.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "server/writable.hpp"
#include "storage/key_store.hpp"

namespace {

using namespace idem;
using core::Admission;
using core::BucketState;
using core::Micros;
using core::TokenBucket;

enum Argument { name, rate, burst, cost, scope };

constexpr const char *kFunction = "idem_allow()";

struct Request {
    const text *name;
    const text *scope;
    TokenBucket bucket;
    int32 cost;
};

int32 positive_argument(FunctionCallInfo fcinfo, int arg, const char *what) {
    if (PG_ARGISNULL(arg))
        raise_null_argument(what);
    const int32 value = PG_GETARG_INT32(arg);
    if (value <= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be positive", what)));
    return value;
}

TokenBucket bucket_arguments(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(rate))
        raise_null_argument("rate");
    const float8 per_second = PG_GETARG_FLOAT8(rate);
    const auto bucket = core::token_bucket(per_second, positive_argument(fcinfo, burst, "burst"));
    if (!bucket)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("rate is out of range"),
             errdetail("It is in units a second: more than 0, at most 1e9, and the burst must come back within 100 years.")));
    return *bucket;
}

Request request_arguments(FunctionCallInfo fcinfo) {
    Request request;
    request.name = key_argument(fcinfo, name, "name");
    request.bucket = bucket_arguments(fcinfo);
    request.cost = positive_argument(fcinfo, cost, "cost");
    if (request.cost > request.bucket.burst)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("cost must not be more than burst"),
                 errdetail("A cost of %d would never be allowed by a burst of %d.", request.cost, request.bucket.burst)));
    request.scope = scope_argument(fcinfo, scope);
    (void)scope_policy(request.scope); // may the caller use it?
    return request;
}

void set_state(KeyRow *row, const BucketState &state) {
    row->set(KeyColumn::created_at, TimestampTzGetDatum(state.as_of));
    row->set(KeyColumn::expires_at, TimestampTzGetDatum(core::micros_after(state.full_at)));
    row->set(KeyColumn::fence, Int64GetDatum(state.full_at));
}

BucketState bucket_state(const KeyRow &row) {
    return {row.is_null(KeyColumn::fence) ? 0 : DatumGetInt64(row.get(KeyColumn::fence)),
            DatumGetTimestampTz(row.get(KeyColumn::created_at))};
}

KeyRow first_row(const Request &request, const BucketState &state) {
    ClaimRequest claim{};
    claim.space = KeySpace::rates;
    claim.scope = request.scope;
    claim.key = request.name;
    claim.ttl = USECS_PER_SEC;
    KeyRow row = new_key_row(claim, state.as_of);
    set_state(&row, state);
    return row;
}

Admission admit(const KeyTable &table, const Request &request) {
    for (;; check_for_interrupts()) {
        const Probe found = probe_waiting(table, request.scope, request.name, kFunction);
        const Micros now = clock_now();
        if (found.presence == Presence::absent) {
            const Admission admission = core::admit(request.bucket, {0, now}, now, request.cost);
            ItemPointerData version;
            if (insert_key(table, first_row(request, admission.state), &version))
                return admission;
            continue;
        }
        KeyRow row = read_row(table, found);
        const Admission admission = core::admit(request.bucket, bucket_state(row), now, request.cost);
        if (!admission.allowed && !admission.clock_was_set_back)
            return admission;
        set_state(&row, admission.state);
        ItemPointerData version = found.tid;
        if (replace_key(table, &version, row, true) == Write::done)
            return admission;
    }
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_allow);

PGDLLEXPORT Datum idem_allow(PG_FUNCTION_ARGS) {
    const Request request = request_arguments(fcinfo);
    prevent_unless_writable(kFunction);
    const KeyTable table = open_keys(Access::write, KeySpace::rates);
    const Admission admission = admit(table, request);
    close_keys(table);
    const Datum values[] = {BoolGetDatum(admission.allowed), Int32GetDatum(admission.remaining),
                            admission.allowed ? Datum{0} : interval_of(admission.retry_after)};
    const bool nulls[] = {false, false, admission.allowed};
    constexpr Oid kTypes[] = {BOOLOID, INT4OID, INTERVALOID};
    return make_record(fcinfo, kTypes, values, nulls);
}

} // extern "C"
