#include "storage/scope_places.hpp"

#include "server/compat.hpp"
#include "server/generation_cache.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr Column kColumns[] = {{"scope", TEXTOID}, {"ring", INT4OID}, {"is_current", BOOLOID}, {"through", INT8OID, kNullable}};

struct PlaceColumn {
    enum : AttrNumber { scope = 1, ring, is_current, through, count = through };
};
static_assert(lengthof(kColumns) == PlaceColumn::count);

constinit GenerationCache<ScopePlaces> cache("idem places of scopes", {}); // count 0: the scope has no rows

ScopePlace read_place(HeapTuple row, TupleDesc layout) {
    bool is_null;
    ScopePlace place{};
    place.ring = DatumGetInt32(heap_getattr(row, PlaceColumn::ring, layout, &is_null));
    place.is_current = DatumGetBool(heap_getattr(row, PlaceColumn::is_current, layout, &is_null));
    const Datum through = heap_getattr(row, PlaceColumn::through, layout, &is_null);
    place.through = is_null ? PG_INT64_MAX : DatumGetInt64(through);
    return place;
}

ScopePlaces read_rows(Relation table, const text *scope) {
    ScopePlaces found{};
    const Oid index = compat_primary_key(table);
    ScanKeyData entry;
    ScanKeyInit(&entry, PlaceColumn::scope, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(scope));
    entry.sk_collation = C_COLLATION_OID;
    SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), nullptr, 1, &entry);
    while (HeapTuple row = systable_getnext(scan)) {
        if (found.count == ScopePlaces::kMax)
            elog(ERROR, "scope \"%s\" has too many places", text_to_cstring(scope));
        found.places[found.count++] = read_place(row, RelationGetDescr(table));
    }
    systable_endscan(scan);
    std::stable_sort(found.places, found.places + found.count,
                     [](const ScopePlace &left, const ScopePlace &right) { return left.is_current && !right.is_current; });
    if (found.count > 0 && (!found.places[0].is_current || (found.count > 1 && found.places[1].is_current)))
        elog(ERROR, "scope \"%s\" does not have exactly one current place", text_to_cstring(scope));
    return found;
}

} // namespace

constinit Member scope_places_table =
    member_table("idem_scope_places", kColumns, PlaceColumn::scope, PlaceColumn::ring, kAnyChecks);

ScopePlaces read_places(const text *scope) {
    Relation table = open_member(scope_places_table, AccessShareLock);
    const ScopePlaces places = read_rows(table, scope);
    table_close(table, AccessShareLock);
    return places;
}

List *scopes_with_places() {
    List *scopes = NIL;
    Relation table = open_member(scope_places_table, AccessShareLock);
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    while (HeapTuple row = systable_getnext(scan)) {
        bool is_null;
        if (DatumGetBool(heap_getattr(row, PlaceColumn::is_current, RelationGetDescr(table), &is_null)))
            scopes =
                lappend(scopes, DatumGetTextPCopy(heap_getattr(row, PlaceColumn::scope, RelationGetDescr(table), &is_null)));
    }
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    return scopes;
}

const ScopePlaces *places_of(const text *scope) {
    // The caller has just received the changes of other sessions.
    if (cache.is_empty(scope_places_table.generation))
        return nullptr;
    (void)generation_of(scope_places_table);
    const auto read = [&](ScopePlaces *places, MemoryContext) {
        Relation table = open_member(scope_places_table, AccessShareLock);
        const bool is_empty = RelationGetNumberOfBlocks(table) == 0;
        if (!is_empty)
            *places = read_rows(table, scope);
        table_close(table, AccessShareLock);
        return is_empty;
    };
    const ScopePlaces &places = cache.look_up(scope, scope_places_table.generation, read);
    return places.count > 0 ? &places : nullptr;
}

} // namespace idem
