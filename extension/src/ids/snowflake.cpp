#include "ids/snowflake.hpp"

#include "core/snowflake.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "server/settings.hpp"
#include "server/writable.hpp"
#include "storage/high_water_page.hpp"

namespace idem {

namespace {

// One reservation lasts for about a second, or for four million numbers when they are taken faster.
constexpr int64 kReserveAhead = int64{1000} << (core::kNodeBits + core::kSequenceBits);

[[noreturn]] void raise_used_up() {
    ereport(ERROR, (errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED), errmsg("the numbers of idem_next_id are used up"),
                    errdetail("Either it is September 2093, or the server's clock once was that far ahead.")));
    pg_unreachable();
}

} // namespace

constinit Member id_high_water = member_sequence("idem_id_high_water");

int64 next_id() {
    Relation sequence = open_member_held(id_high_water, RowExclusiveLock);
    const int64 clock = core::id_millis(clock_now());
    const HighWaterPage page = lock_high_water(sequence);
    const auto id = core::next_id(page.last(), clock, settings::node_id);
    if (!id)
        raise_used_up();
    advance_high_water(page, *id, kReserveAhead);
    RelationClose(sequence);
    return *id;
}

} // namespace idem

namespace {

using namespace idem;

struct PartColumn {
    enum { at, node, seq, count };
};

constexpr Oid kPartTypes[] = {TIMESTAMPTZOID, INT4OID, INT4OID};

} // namespace

SQL_FUNCTION(idem_next_id) {
    prevent_unless_writable("idem_next_id()");
    PG_RETURN_INT64(next_id());
}

SQL_FUNCTION(idem_id_parts) {
    if (PG_ARGISNULL(0))
        raise_null_argument("id");
    const int64 id = PG_GETARG_INT64(0);
    if (id < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("id must not be negative")));
    const core::IdParts parts = core::id_parts(id);
    Datum values[PartColumn::count];
    bool nulls[PartColumn::count] = {};
    values[PartColumn::at] = TimestampTzGetDatum(core::kIdEpoch + parts.millis * 1000);
    values[PartColumn::node] = Int32GetDatum(parts.node);
    values[PartColumn::seq] = Int32GetDatum(parts.sequence);
    return make_record(fcinfo, kPartTypes, values, nulls);
}
