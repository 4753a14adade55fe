// What idem_health (sql/health.sql) cannot ask in SQL: which library this is, whether the tables are those it made, and what
// the rows of a table of keys say, of as many as can be read in a given time.
#include "operations/members.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "server/row_answer.hpp"
#include "server/subtransaction.hpp"
#include "statistics/stats.hpp"
#include "storage/key_store.hpp"
#include "storage/key_walk.hpp"

namespace {

using namespace idem;
using core::Micros;
using core::State;

enum LibraryColumn { version, is_preloaded, trouble, library_columns };

enum SampleColumn {
    pages,
    pages_read,
    live_rows,
    expired,
    oldest_expiry,
    leases,
    oldest_lease,
    lapsed,
    oldest_lapse,
    in_doubt,
    sample_columns
};

struct Counted {
    int64 number = 0;
    Micros oldest = core::kForever;

    void add(Micros at) {
        number++;
        oldest = Min(oldest, at);
    }
};

struct Sample {
    BlockNumber read = 0;
    int64 rows = 0;
    Counted expired; // by the end of their retention
    Counted leases;  // by when they were claimed
    Counted lapsed;  // by the end of their lease
    int64 in_doubt = 0;
};

struct Sampler {
    TupleDesc layout;
    Micros now;
    Sample sample;
    HeapTuple open[MaxHeapTuplesPerPage]; // copies of rows in progress
    int count;
};

// REQUIRES: the page's lock.
void sample_row(Sampler *sampler, HeapTuple version, Buffer buffer, bool all_visible) {
    if (!all_visible && !HeapTupleSatisfiesVisibility(version, GetActiveSnapshot(), buffer))
        return;
    Sample *sample = &sampler->sample;
    sample->rows++;
    bool is_null;
    switch (static_cast<State>(DatumGetChar(heap_getattr(version, KeyColumn::state, sampler->layout, &is_null)))) {
    case State::in_progress:
        sampler->open[sampler->count++] = heap_copytuple(version);
        break;
    case State::in_doubt:
        sample->in_doubt++;
        break;
    case State::completed:
    case State::released:
        const Micros end = DatumGetTimestampTz(heap_getattr(version, KeyColumn::expires_at, sampler->layout, &is_null));
        if (end <= sampler->now)
            sample->expired.add(end);
        break;
    }
}

void sample_lease(Sampler *sampler, HeapTuple copy) {
    KeyRow row;
    heap_deform_tuple(copy, sampler->layout, row.values, row.nulls);
    ScopePolicy policy;
    (void)find_usable_scope(DatumGetTextPP(row.get(KeyColumn::scope)), &policy); // only counted, so for whoever asks
    Sample *sample = &sampler->sample;
    const Micros lease_end = row.time(KeyColumn::lease_until);
    if (lease_end > sampler->now)
        sample->leases.add(row.time(KeyColumn::created_at));
    else if (policy.manual_on_lease_expiry)
        sample->in_doubt++;
    else if (row.time(KeyColumn::expires_at) <= sampler->now)
        sample->expired.add(row.time(KeyColumn::expires_at));
    else
        sample->lapsed.add(lease_end);
}

uint64 greatest_common_divisor(uint64 a, uint64 b) {
    while (b != 0) {
        const uint64 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// How far from one page to the next, so that the pages read are spread evenly whenever time is up, and all are read if it is
// not: steps of the golden section.
uint64 stride_over(BlockNumber blocks) {
    uint64 stride = Max(static_cast<uint64>(blocks * 0.6180339887), uint64{1});
    while (greatest_common_divisor(stride, blocks) != 1)
        stride++;
    return stride;
}

Sample sample_table(Relation table, Micros budget, BlockNumber *blocks) {
    Sampler sampler;
    sampler.layout = RelationGetDescr(table);
    sampler.now = clock_now();
    sampler.sample = Sample{};
    const KeyWalk walk = begin_walk(table);
    const MemoryContext page_memory = AllocSetContextCreate(CurrentMemoryContext, "idem_health", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(page_memory);
    const uint64 stride = walk.blocks > 0 ? stride_over(walk.blocks) : 0;
    uint64 block = 0;
    while (sampler.sample.read < walk.blocks && clock_now() - sampler.now < budget) {
        sampler.count = 0;
        walk_page(walk, static_cast<BlockNumber>(block),
                  [&](HeapTuple row, Buffer buffer, bool all_visible) { sample_row(&sampler, row, buffer, all_visible); });
        for (int i = 0; i < sampler.count; i++)
            sample_lease(&sampler, sampler.open[i]);
        if (sampler.count > 0)
            MemoryContextReset(page_memory);
        sampler.sample.read++;
        block = (block + stride) % walk.blocks;
    }
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(page_memory);
    *blocks = walk.blocks;
    end_walk(walk);
    return sampler.sample;
}

KeySpace space_argument(FunctionCallInfo fcinfo, int arg) {
    const char *name = text_to_cstring(required_text(fcinfo, arg, "space"));
    for (int i = 0; i < kKeySpaces; i++)
        if (strcmp(name, key_tables[i].layout.name) == 0)
            return static_cast<KeySpace>(i);
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no table \"%s\" of keys", name)));
    pg_unreachable();
}

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_health_library);
PG_FUNCTION_INFO_V1(idem_health_sample);

PGDLLEXPORT Datum idem_health_library(PG_FUNCTION_ARGS) {
    Datum values[library_columns];
    bool nulls[library_columns] = {};
    values[version] = CStringGetTextDatum(library_version());
    values[is_preloaded] = BoolGetDatum(stats::is_available());
    ErrorData *error = try_in_subtransaction([] {
        check_members();
        return true;
    });
    // Any other error, a cancel or a lack of memory, says nothing about the tables.
    if (error != nullptr && error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
        ReThrowError(error);
    nulls[trouble] = error == nullptr;
    if (error != nullptr)
        values[trouble] = CStringGetTextDatum(psprintf("%s: %s", error->message, error->detail ? error->detail : ""));
    constexpr Oid kTypes[] = {TEXTOID, BOOLOID, TEXTOID};
    return make_record(fcinfo, kTypes, values, nulls);
}

PGDLLEXPORT Datum idem_health_sample(PG_FUNCTION_ARGS) {
    const KeySpace space = space_argument(fcinfo, 0);
    const Micros budget = positive_span_of(PG_GETARG_INTERVAL_P(1), "budget");
    Relation table = open_member(table_of(space), AccessShareLock);
    BlockNumber blocks;
    const Sample sample = sample_table(table, budget, &blocks);
    table_close(table, NoLock);
    Datum values[sample_columns];
    bool nulls[sample_columns] = {};
    values[pages] = Int64GetDatum(blocks);
    values[pages_read] = Int64GetDatum(sample.read);
    values[live_rows] = Int64GetDatum(sample.rows);
    values[in_doubt] = Int64GetDatum(sample.in_doubt);
    auto put = [&](SampleColumn number, SampleColumn oldest, const Counted &counted) {
        values[number] = Int64GetDatum(counted.number);
        values[oldest] = TimestampTzGetDatum(counted.oldest);
        nulls[oldest] = counted.number == 0;
    };
    put(expired, oldest_expiry, sample.expired);
    put(leases, oldest_lease, sample.leases);
    put(lapsed, oldest_lapse, sample.lapsed);
    constexpr Oid kTypes[] = {INT8OID, INT8OID,        INT8OID, INT8OID,        TIMESTAMPTZOID,
                              INT8OID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID};
    static_assert(lengthof(kTypes) == sample_columns);
    return make_record(fcinfo, kTypes, values, nulls);
}

} // extern "C"
