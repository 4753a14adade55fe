// The checks of idem_health (sql/operations/health.sql) that SQL cannot do: the library's version, and whether the extension's
// relations and types are as installed.
#include "operations/members.hpp"
#include "server/library.hpp"
#include "server/row_answer.hpp"
#include "server/subtransaction.hpp"
#include "statistics/stats.hpp"

namespace {

using namespace idem;

struct LibraryColumn {
    enum { version, source, is_preloaded, trouble, count };
};

} // namespace

SQL_FUNCTION(idem_health_library) {
    Datum values[LibraryColumn::count];
    bool nulls[LibraryColumn::count] = {};
    values[LibraryColumn::version] = CStringGetTextDatum(library_version());
    values[LibraryColumn::source] = CStringGetTextDatum(library_source());
    nulls[LibraryColumn::source] = library_source()[0] == '\0';
    values[LibraryColumn::is_preloaded] = BoolGetDatum(stats::is_available());
    ErrorData *error = try_in_subtransaction([] {
        check_members();
        return true;
    });
    // Any other error, such as a cancel or lack of memory, is not about the relations.
    if (error != nullptr && error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
        ReThrowError(error);
    nulls[LibraryColumn::trouble] = error == nullptr;
    if (error != nullptr)
        values[LibraryColumn::trouble] =
            CStringGetTextDatum(psprintf("%s: %s", error->message, error->detail ? error->detail : ""));
    constexpr Oid kTypes[] = {TEXTOID, TEXTOID, BOOLOID, TEXTOID};
    return make_record(fcinfo, kTypes, values, nulls);
}
