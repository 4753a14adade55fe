// idem_stats_counters, which is behind the view idem_stats, and idem_stats_reset.
#include "scopes/scope.hpp"
#include "server/row_answer.hpp"
#include "statistics/stats.hpp"

namespace {

using namespace idem;
using stats::ScopeCounts;

struct StatsColumn {
    enum { scope, is_other, first_counter, count = first_counter + stats::kCounters };
};
constexpr Oid kTypes[] = {TEXTOID, BOOLOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID};
static_assert(lengthof(kTypes) == StatsColumn::count);

// Every caller sees a bucket, because it sums up the scopes of all owners and names none.
bool is_shown(const ScopeCounts &item) {
    ScopePolicy policy;
    return item.is_other || find_usable_scope(cstring_to_text_with_len(item.name, item.length), &policy);
}

void put_counts(const AnswerRows &result, const ScopeCounts &item) {
    Datum values[StatsColumn::count];
    bool nulls[StatsColumn::count] = {};
    nulls[StatsColumn::scope] = item.is_other;
    values[StatsColumn::scope] = PointerGetDatum(cstring_to_text_with_len(item.name, item.length));
    values[StatsColumn::is_other] = BoolGetDatum(item.is_other);
    for (int i = 0; i < stats::kCounters; i++)
        values[StatsColumn::first_counter + i] = Int64GetDatum(static_cast<int64>(item.counts[i]));
    put_answer_row(result, values, nulls);
}

// Calls `use` for each item of this database that the caller may see.
template <typename Use> void for_each_shown(Use use) {
    if (!stats::is_available())
        return;
    const stats::ScopeCountsList list = stats::counts_of(MyDatabaseId);
    for (int i = 0; i < list.count; i++) {
        CHECK_FOR_INTERRUPTS();
        if (is_shown(list.items[i]))
            use(list.items[i]);
    }
}

} // namespace

SQL_FUNCTION(idem_stats_counters) {
    const AnswerRows rows = begin_answer_rows(fcinfo, kTypes);
    for_each_shown([&](const ScopeCounts &item) { put_counts(rows, item); });
    return Datum{0};
}

SQL_FUNCTION(idem_stats_reset) {
    for_each_shown([](const ScopeCounts &item) {
        // The bucket that databases share is not reset: it also counts for other databases.
        if (OidIsValid(item.database))
            stats::reset(item);
    });
    PG_RETURN_VOID();
}
