// The index access method idem_filter. An index of it holds the pages of a ring's filter (ring_filter_pages.hpp) and no entry
// of a row: queries cannot use it, and changes of the table do not touch it. Its one column is the number of a window.
#include "core/ring_filter.hpp"
#include "server/compat.hpp"
#include "storage/ring.hpp"
#include "storage/ring_filter_pages.hpp"

namespace {

using namespace idem;

// The number of windows in a ring's map, from its rows.
struct Windows {
    int count;
};

void see_window(Relation, ItemPointer, Datum *values, bool *nulls, bool, void *state) {
    auto *windows = static_cast<Windows *>(state);
    if (!nulls[0])
        windows->count = Max(windows->count, DatumGetInt16(values[0]) + 1);
}

IndexBuildResult *build(Relation map, Relation filter, IndexInfo *info) {
    if (!is_named_as_map(RelationGetRelid(map)))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("cannot create an idem_filter index on table \"%s\"", RelationGetRelationName(map)),
                        errdetail("The access method is for the maps of rings alone, which idem_ring_create makes.")));
    if (RelationGetNumberOfBlocks(filter) != 0)
        elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(filter));
    Windows windows{};
    const double rows = table_index_build_scan(map, filter, info, true, false, see_window, &windows, nullptr);
    init_filter(filter, Min(Max(windows.count, 1), core::kMaxFilterWindows));
    auto *result = static_cast<IndexBuildResult *>(palloc0(sizeof(IndexBuildResult)));
    result->heap_tuples = rows;
    return result;
}

void build_empty(Relation) {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("idem_filter indexes do not support unlogged tables")));
}

bool insert(Relation, Datum *, bool *, ItemPointer, Relation, IndexUniqueCheck, bool, IndexInfo *) { return false; }

IndexBulkDeleteResult *clean_up(IndexVacuumInfo *info, IndexBulkDeleteResult *result) {
    if (result == nullptr)
        result = static_cast<IndexBulkDeleteResult *>(palloc0(sizeof(IndexBulkDeleteResult)));
    result->num_pages = RelationGetNumberOfBlocks(info->index);
    return result;
}

IndexBulkDeleteResult *bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *result, IndexBulkDeleteCallback, void *) {
    return clean_up(info, result);
}

void estimate_cost(PlannerInfo *, IndexPath *, double, Cost *startup, Cost *total, Selectivity *selectivity,
                   double *correlation, double *pages) {
    *startup = *total = disable_cost;
    *selectivity = 1;
    *correlation = *pages = 0;
}

bytea *options(Datum, bool) { return nullptr; }

bool validate(Oid) { return true; }

[[noreturn]] void raise_not_searchable() {
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("idem_filter indexes cannot be searched by queries")));
    pg_unreachable();
}

IndexScanDesc begin_scan(Relation, int, int) { raise_not_searchable(); }
void rescan(IndexScanDesc, ScanKey, int, ScanKey, int) { raise_not_searchable(); }
void end_scan(IndexScanDesc) {}

constexpr IndexAmRoutine filter_method() {
    IndexAmRoutine method{};
    method.type = T_IndexAmRoutine;
    method.amkeytype = InvalidOid;
    method.ambuild = build;
    method.ambuildempty = build_empty;
    method.aminsert = insert;
    method.ambulkdelete = bulk_delete;
    method.amvacuumcleanup = clean_up;
    method.amcostestimate = estimate_cost;
    method.amoptions = options;
    method.amvalidate = validate;
    method.ambeginscan = begin_scan;
    method.amrescan = rescan;
    method.amendscan = end_scan;
    return method;
}

constexpr IndexAmRoutine kFilterMethod = filter_method();

} // namespace

SQL_FUNCTION(idem_filter_handler) { PG_RETURN_POINTER(compat_index_method(kFilterMethod)); }
