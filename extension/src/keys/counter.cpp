// idem_hit: counts how often a key was seen within its window. A counter's row expires with its window, and restarts in place.
// idem_hits reads the count.
#include "keys/claim_request.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "server/writable.hpp"
#include "storage/key_wait.hpp"
#include "storage/key_write_in_time.hpp"

namespace {

using namespace idem;
using core::Micros;

constexpr const char *kFunction = "idem_hit()";

struct Counter {
    Micros expires_at;
    int64 hits;
};

struct CounterRow {
    Datum values[CounterColumn::count];
    bool nulls[CounterColumn::count];
};

int64 one_more(int64 hits) {
    int64 sum;
    if (pg_add_s64_overflow(hits, 1, &sum))
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE), errmsg("bigint out of range")));
    return sum;
}

// Returns the counter with one more hit. A stored counter counts until its window ends.
Counter next_counter(const KeyTable &table, const FoundRow &found, Micros window, Micros now) {
    if (found.presence == Presence::found) {
        const Micros expires_at = DatumGetTimestampTz(value_of(table, found, CounterColumn::expires_at));
        if (expires_at > now)
            return {expires_at, one_more(DatumGetInt64(value_of(table, found, CounterColumn::hits)))};
    }
    return {deadline_after(now, window, "ttl"), 1};
}

int64 count_hit(const KeyTable &table, const text *scope, const text *key, Micros window) {
    for (;; check_for_interrupts()) {
        const FoundRow found = find_row_waiting(table, scope, key, kFunction);
        Counter counter;
        const auto compose = [&](Micros at) {
            counter = next_counter(table, found, window, at);
            return CounterRow{{TimestampTzGetDatum(counter.expires_at), Int64GetDatum(counter.hits), PointerGetDatum(scope),
                               PointerGetDatum(key)},
                              {}};
        };
        KeyVersion version = found.version;
        Micros now = found.at;
        if (found.presence == Presence::absent) {
            if (insert_key_in_time(table, &version, &now, compose))
                return counter.hits;
            continue;
        }
        require_in_snapshot(table, found);
        if (replace_key_in_time(table, &version, &now, true, compose) == Write::done)
            return counter.hits;
    }
}

} // namespace

SQL_FUNCTION(idem_hit) {
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 2);
    const Micros window = retention(scope_policy(scope), optional_interval(fcinfo, 1));
    check_deadline(window, "ttl");
    prevent_unless_writable(kFunction);
    const KeyTable table = open_keys(Access::write, KeySpace::counters, nullptr);
    const int64 hits = count_hit(table, scope, key, window);
    close_keys(table);
    PG_RETURN_INT64(hits);
}

SQL_FUNCTION(idem_hits) {
    static constexpr Oid kTypes[] = {INT8OID, TIMESTAMPTZOID};
    const text *key = key_argument(fcinfo, 0);
    const text *scope = scope_argument(fcinfo, 1);
    (void)scope_policy(scope);
    const AnswerRows rows = begin_answer_rows(fcinfo, kTypes);
    const KeyTable table = open_keys(Access::read, KeySpace::counters, nullptr);
    const FoundRow found = find_visible_row(table, scope, key);
    if (found.presence == Presence::found) {
        const Datum expires_at = value_of(table, found, CounterColumn::expires_at);
        const Datum values[] = {value_of(table, found, CounterColumn::hits), expires_at};
        const bool nulls[lengthof(kTypes)] = {};
        if (DatumGetTimestampTz(expires_at) > found.at)
            put_answer_row(rows, values, nulls);
    }
    close_keys(table);
    return Datum{0};
}
