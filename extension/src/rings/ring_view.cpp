// The rows of the view idem_rings.
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "server/row_answer.hpp"
#include "storage/key_space.hpp"
#include "storage/ring.hpp"
#include "storage/ring_filter_pages.hpp"

namespace {

using namespace idem;

struct Column {
    enum {
        ring,
        retention,
        windows,
        number,
        state,
        opened_at,
        closed_at,
        until,
        keys,
        bytes,
        filter_bytes,
        false_positives,
        count
    };
};
constexpr Oid kTypes[] = {TEXTOID,        INTERVALOID,    INT4OID, INT4OID, TEXTOID, TIMESTAMPTZOID,
                          TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID, INT8OID, FLOAT4OID};
static_assert(lengthof(kTypes) == Column::count);

int64 bytes_of(Relation relation) { return static_cast<int64>(RelationGetNumberOfBlocks(relation)) * BLCKSZ; }

int64 bytes_of_table(Relation table) {
    int64 bytes = bytes_of(table);
    ListCell *cell;
    foreach (cell, RelationGetIndexList(table)) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        bytes += bytes_of(index);
        index_close(index, AccessShareLock);
    }
    return bytes;
}

// As the planner estimates the rows.
int64 estimated_rows(Relation table) {
    if (RelationGetNumberOfBlocks(table) == 0)
        return 0; // the planner takes a table that was never vacuumed for larger
    int32 widths[KeyColumn::count + 1] = {};
    BlockNumber pages;
    double rows, visible;
    estimate_rel_size(table, widths, &pages, &rows, &visible);
    return static_cast<int64>(rows);
}

struct Filter {
    int64 bytes;
    FilterState state;
};

Filter read(const Ring &ring) {
    Filter filter{};
    if (!OidIsValid(ring.filter))
        return filter;
    Relation index = index_open(ring.filter, AccessShareLock);
    filter.bytes = bytes_of(index);
    filter.state = read_filter(index);
    index_close(index, AccessShareLock);
    return filter;
}

void put_window(const AnswerRows &rows, Ring &ring, const Filter &filter, int number, const RingEntry &entry) {
    RingWindow &window = ring.window[number];
    Datum values[Column::count];
    bool nulls[Column::count] = {};
    const auto set_time = [&](int column, core::Micros time) {
        values[column] = TimestampTzGetDatum(time);
        nulls[column] = time == 0;
    };
    Relation table = open_member(window.table, AccessShareLock);
    const SliceState &slice = filter.state.slices[number];
    values[Column::ring] = CStringGetTextDatum(entry.name);
    values[Column::retention] = IntervalPGetDatum(entry.retention);
    values[Column::windows] = Int32GetDatum(ring.windows);
    values[Column::number] = Int32GetDatum(number);
    values[Column::state] = CStringGetTextDatum(state_name(window.state.state));
    set_time(Column::opened_at, window.state.opened_at);
    set_time(Column::closed_at, window.state.closed_at);
    set_time(Column::until, window.state.until);
    values[Column::keys] = Int64GetDatum(window.is_covered ? static_cast<int64>(slice.keys) : estimated_rows(table));
    values[Column::bytes] = Int64GetDatum(bytes_of_table(table));
    values[Column::filter_bytes] = Int64GetDatum(filter.bytes);
    values[Column::false_positives] = Float4GetDatum(slice.false_positives);
    nulls[Column::false_positives] = !window.is_covered;
    relation_close(table, AccessShareLock);
    put_answer_row(rows, values, nulls);
}

} // namespace

SQL_FUNCTION(idem_ring_windows) {
    const AnswerRows rows = begin_answer_rows(fcinfo, kTypes);
    ListCell *cell;
    foreach (cell, ring_entries()) {
        const auto *entry = static_cast<const RingEntry *>(lfirst(cell));
        Ring *ring = ring_if_there(entry->id);
        if (ring == nullptr)
            continue;
        const Filter filter = read(*ring);
        for (int number = 0; number < ring->windows; number++)
            put_window(rows, *ring, filter, number, *entry);
    }
    return Datum{0};
}

SQL_FUNCTION(idem_ring_filters) {
    constexpr Oid kFilterTypes[] = {TEXTOID, BOOLOID, INT8OID};
    const AnswerRows rows = begin_answer_rows(fcinfo, kFilterTypes);
    ListCell *cell;
    foreach (cell, ring_entries()) {
        const auto *entry = static_cast<const RingEntry *>(lfirst(cell));
        const Ring *ring = ring_if_there(entry->id);
        if (ring == nullptr)
            continue;
        int64 damaged = 0;
        if (OidIsValid(ring->filter)) {
            Relation filter = index_open(ring->filter, AccessShareLock);
            damaged = count_damaged_pages(filter);
            index_close(filter, AccessShareLock);
        }
        const Datum values[] = {CStringGetTextDatum(entry->name), BoolGetDatum(!OidIsValid(ring->filter)),
                                Int64GetDatum(damaged)};
        const bool nulls[lengthof(values)] = {};
        put_answer_row(rows, values, nulls);
    }
    return Datum{0};
}
