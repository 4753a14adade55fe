// idem_allow: a token bucket for each name. Its row says when the bucket will be full again (nanoseconds since PostgreSQL's
// epoch) and when that was computed, and expires when the bucket is full.
//
// A rejected call writes nothing and locks nothing, unless the clock was set back. An allowed call replaces the row version
// that it has read, so no unit is granted twice. It reads the latest version, whatever the transaction's snapshot sees.
#include "core/duration.hpp"
#include "core/token_bucket.hpp"

#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "server/writable.hpp"
#include "storage/key_wait.hpp"
#include "storage/key_write_in_time.hpp"

namespace {

using namespace idem;
using core::Admission;
using core::BucketState;
using core::Micros;
using core::TokenBucket;

struct Argument {
    enum { name, rate, burst, cost, scope };
};

constexpr const char *kFunction = "idem_allow()";

struct Request {
    const text *name;
    const text *scope;
    TokenBucket bucket;
    int32 cost;
};

int32 positive(int32 value, const char *name) {
    if (value <= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be positive", name)));
    return value;
}

TokenBucket bucket_arguments(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::rate))
        raise_null_argument("rate");
    if (PG_ARGISNULL(Argument::burst))
        raise_null_argument("burst");
    const float8 per_second = PG_GETARG_FLOAT8(Argument::rate);
    const auto bucket = core::token_bucket(per_second, positive(PG_GETARG_INT32(Argument::burst), "burst"));
    if (!bucket)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("rate is out of range"),
             errdetail("It is in units a second: more than 0, at most 1e9, and the burst must come back within 100 years.")));
    return *bucket;
}

Request request_arguments(FunctionCallInfo fcinfo) {
    Request request;
    request.name = key_argument(fcinfo, Argument::name, "name");
    request.bucket = bucket_arguments(fcinfo);
    request.cost = PG_ARGISNULL(Argument::cost) ? 1 : positive(PG_GETARG_INT32(Argument::cost), "cost");
    if (request.cost > request.bucket.burst)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("cost must not be more than burst"),
                 errdetail("A cost of %d would never be allowed by a burst of %d.", request.cost, request.bucket.burst)));
    request.scope = scope_argument(fcinfo, Argument::scope);
    (void)scope_policy(request.scope); // raises unless the caller may use the scope
    return request;
}

// The row of a bucket with this state. It expires when the bucket is full again.
struct RateRow {
    Datum values[RateColumn::count];
    bool nulls[RateColumn::count] = {};

    RateRow(const Request &request, const BucketState &state)
        : values{TimestampTzGetDatum(core::micros_after(state.full_at)), TimestampTzGetDatum(state.as_of),
                 Int64GetDatum(state.full_at), PointerGetDatum(request.scope), PointerGetDatum(request.name)} {}
};

BucketState bucket_state(const KeyTable &table, const FoundRow &found) {
    return {DatumGetInt64(value_of(table, found, RateColumn::full_at)),
            DatumGetTimestampTz(value_of(table, found, RateColumn::as_of))};
}

Admission admit(const KeyTable &table, const Request &request) {
    for (;; check_for_interrupts()) {
        const FoundRow found = find_row_waiting(table, request.scope, request.name, kFunction);
        const bool is_new = found.presence == Presence::absent;
        Micros now = found.at;
        const auto admit_at = [&](Micros at) {
            return core::admit(request.bucket, is_new ? BucketState{0, at} : bucket_state(table, found), at, request.cost);
        };
        Admission admission = admit_at(now);
        if (!admission.allowed && !admission.clock_was_set_back)
            return admission;
        const auto compose = [&](Micros at) {
            admission = admit_at(at);
            return RateRow(request, admission.state);
        };
        KeyVersion version = found.version;
        if (is_new ? insert_key_in_time(table, &version, &now, compose)
                   : replace_key_in_time(table, &version, &now, true, compose) == Write::done)
            return admission;
    }
}

} // namespace

SQL_FUNCTION(idem_allow) {
    const Request request = request_arguments(fcinfo);
    prevent_unless_writable(kFunction);
    const KeyTable table = open_keys(Access::write, KeySpace::rates, nullptr);
    const Admission admission = admit(table, request);
    close_keys(table);
    const Datum values[] = {BoolGetDatum(admission.allowed), Int32GetDatum(admission.remaining),
                            Int32GetDatum(core::milliseconds(admission.retry_after))};
    const bool nulls[] = {false, false, admission.allowed};
    constexpr Oid kTypes[] = {BOOLOID, INT4OID, INT4OID};
    return make_record(fcinfo, kTypes, values, nulls);
}
