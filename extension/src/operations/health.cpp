// What idem_health (sql/operations/health.sql) cannot ask in SQL: which library this is, and whether the tables are those it made.
#include "operations/members.hpp"
#include "server/extension.hpp"
#include "server/row_answer.hpp"
#include "server/subtransaction.hpp"
#include "statistics/stats.hpp"

namespace {

using namespace idem;

struct LibraryColumn {
    enum { version, is_preloaded, trouble, count };
};

} // namespace

extern "C" {

PG_FUNCTION_INFO_V1(idem_health_library);

PGDLLEXPORT Datum idem_health_library(PG_FUNCTION_ARGS) {
    Datum values[LibraryColumn::count];
    bool nulls[LibraryColumn::count] = {};
    values[LibraryColumn::version] = CStringGetTextDatum(library_version());
    values[LibraryColumn::is_preloaded] = BoolGetDatum(stats::is_available());
    ErrorData *error = try_in_subtransaction([] {
        check_members();
        return true;
    });
    // Any other error, a cancel or a lack of memory, says nothing about the tables.
    if (error != nullptr && error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
        ReThrowError(error);
    nulls[LibraryColumn::trouble] = error == nullptr;
    if (error != nullptr)
        values[LibraryColumn::trouble] =
            CStringGetTextDatum(psprintf("%s: %s", error->message, error->detail ? error->detail : ""));
    constexpr Oid kTypes[] = {TEXTOID, BOOLOID, TEXTOID};
    return make_record(fcinfo, kTypes, values, nulls);
}

} // extern "C"
