#include "storage/ring.hpp"

#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/extension.hpp"
#include "server/invalidation.hpp"
#include "storage/key_space.hpp"
#include "storage/ring_filter_pages.hpp"

#include <algorithm>
#include <string_view>

namespace idem {

namespace {

using core::WindowState;

constexpr Column kRegistryColumns[] = {{"id", INT4OID}, {"ring", TEXTOID}, {"retention", INTERVALOID}};
struct RegistryColumn {
    enum : AttrNumber { id = 1, ring, retention, count = retention };
};
static_assert(lengthof(kRegistryColumns) == RegistryColumn::count);

struct MapColumn {
    enum : AttrNumber { number = 1, state, opened_at, closed_at, until, generation };
};

constexpr const char *kStateNames[] = {"empty", "open", "sealed", "expired"}; // by WindowState

constinit Ring *rings = nullptr; // all that this backend has used

void relation_changed(Oid relation) {
    for (Ring *ring = rings; ring != nullptr; ring = ring->next) {
        bool concerns = ring->is_being_read || relation == InvalidOid || relation == ring->map || relation == ring->filter ||
                        relation == ring_registry.relation;
        for (int i = 0; !concerns && i < ring->windows; i++)
            concerns = relation == ring->window[i].table.relation;
        if (concerns) {
            ring->is_current = false;
            ring->changes++;
        }
    }
}

Ring &remembered(int id) {
    for (Ring *ring = rings; ring != nullptr; ring = ring->next)
        if (ring->id == id)
            return *ring;
    auto *ring = static_cast<Ring *>(MemoryContextAllocZero(TopMemoryContext, sizeof(Ring)));
    ring->id = id;
    for (int i = 0; i < kMaxWindows; i++) {
        RingWindow &window = ring->window[i];
        strlcpy(window.name, window_name(id, i), sizeof window.name);
        window.table = member_window(window.name);
    }
    ring->next = rings;
    rings = ring;
    return *ring;
}

[[noreturn]] void raise_not_as_created(int id, const char *why) { raise_not_as_installed(map_name(id), why); }

Oid relfilenode_of(Oid relation) {
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
    if (!HeapTupleIsValid(row))
        return InvalidOid;
    const Oid file = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relfilenode;
    ReleaseSysCache(row);
    return file;
}

// Calls `visit(HeapTuple, TupleDesc)` for each row of the table as it is now, whatever the transaction's snapshot is.
template <typename Visit> void for_each_row(Relation table, Visit visit) {
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    while (HeapTuple row = systable_getnext(scan))
        visit(row, RelationGetDescr(table));
    systable_endscan(scan);
}

template <typename Visit> void for_each_registered(Visit visit) {
    Relation registry = open_member(ring_registry, AccessShareLock);
    for_each_row(registry, visit);
    table_close(registry, AccessShareLock);
}

core::Micros read_retention(int id) {
    core::Micros retention = 0;
    for_each_registered([&](HeapTuple row, TupleDesc layout) {
        bool is_null;
        if (DatumGetInt32(heap_getattr(row, RegistryColumn::id, layout, &is_null)) == id)
            retention = positive_span_of(DatumGetIntervalP(heap_getattr(row, RegistryColumn::retention, layout, &is_null)),
                                         "retention");
    });
    if (retention == 0)
        raise_not_as_created(id, "The ring is not in idem_ring_registry.");
    return retention;
}

WindowState state_named(int id, const text *name) {
    for (int i = 0; i < static_cast<int>(lengthof(kStateNames)); i++)
        if (text_to_cstring(name) == std::string_view(kStateNames[i]))
            return static_cast<WindowState>(i);
    raise_not_as_created(id, "A window is in an unknown state.");
}

void read_window(Ring *ring, HeapTuple row, TupleDesc layout) {
    bool is_null;
    const int number = DatumGetInt16(heap_getattr(row, MapColumn::number, layout, &is_null));
    if (number != ring->windows || number >= kMaxWindows)
        raise_not_as_created(ring->id, "Its windows are not numbered from 0.");
    RingWindow &window = ring->window[ring->windows++];
    const auto time = [&](AttrNumber column) {
        const Datum value = heap_getattr(row, column, layout, &is_null);
        return is_null ? core::Micros{0} : DatumGetTimestampTz(value);
    };
    window.state.state = state_named(ring->id, DatumGetTextPP(heap_getattr(row, MapColumn::state, layout, &is_null)));
    window.state.opened_at = time(MapColumn::opened_at);
    window.state.closed_at = time(MapColumn::closed_at);
    window.state.until = time(MapColumn::until);
    window.state.generation = DatumGetInt64(heap_getattr(row, MapColumn::generation, layout, &is_null));
    const Oid table = get_relname_relid(window.name, extension().schema);
    if (!OidIsValid(table))
        raise_not_as_installed(window.name, "The relation does not exist.");
    window.table.relation = window.table.relation == table ? table : InvalidOid;
    if (!OidIsValid(window.table.relation)) {
        window.table.relation = table;
        window.table.is_checked = false;
    }
    window.file = relfilenode_of(table);
}

int number_in_row(HeapTuple row, TupleDesc layout) {
    bool is_null;
    return DatumGetInt16(heap_getattr(row, MapColumn::number, layout, &is_null));
}

// A restore gives the tables their former owner, and the extension that of the session.
bool is_ours(Oid owner) { return owner == extension().owner || superuser_arg(owner); }

void check_map(Relation map, int id) {
    static constexpr Oid kTypes[] = {INT2OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID};
    TupleDesc layout = RelationGetDescr(map);
    bool same = map->rd_rel->relkind == RELKIND_RELATION && !map->rd_rel->relispartition && layout->natts == lengthof(kTypes) &&
                is_ours(map->rd_rel->relowner) && map->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
    for (int i = 0; same && i < static_cast<int>(lengthof(kTypes)); i++)
        same = !TupleDescAttr(layout, i)->attisdropped && TupleDescAttr(layout, i)->atttypid == kTypes[i];
    if (!same)
        raise_not_as_created(id, "It is not the map that idem_ring_create made.");
}

void read_map(Ring *ring, Relation map) {
    check_map(map, ring->id);
    HeapTuple rows[kMaxWindows];
    int count = 0;
    for_each_row(map, [&](HeapTuple row, TupleDesc) {
        if (count == kMaxWindows)
            raise_not_as_created(ring->id, "It has too many windows.");
        rows[count++] = heap_copytuple(row);
    });
    TupleDesc layout = RelationGetDescr(map);
    std::sort(rows, rows + count,
              [&](HeapTuple left, HeapTuple right) { return number_in_row(left, layout) < number_in_row(right, layout); });
    ring->windows = 0;
    for (int i = 0; i < count; i++)
        read_window(ring, rows[i], layout);
    if (ring->windows < kMinWindows)
        raise_not_as_created(ring->id, "It has too few windows.");
}

// Sets what follows from the windows' states.
void order_windows(Ring *ring) {
    ring->open = -1;
    ring->searched_count = 0;
    for (int i = 0; i < ring->windows; i++) {
        if (ring->window[i].state.state == WindowState::open) {
            if (ring->open >= 0)
                raise_not_as_created(ring->id, "It has more than one open window.");
            ring->open = i;
        } else if (ring->window[i].state.state == WindowState::sealed) {
            ring->searched[ring->searched_count++] = i;
        }
    }
    if (ring->open < 0)
        raise_not_as_created(ring->id, "It has no open window.");
    std::sort(ring->searched, ring->searched + ring->searched_count,
              [&](int left, int right) { return ring->window[left].state.generation > ring->window[right].state.generation; });
}

bool is_filter(Relation index) {
    const Oid method = get_am_oid("idem_filter", true);
    return index->rd_rel->relkind == RELKIND_INDEX && OidIsValid(method) && index->rd_rel->relam == method &&
           index->rd_index->indisvalid;
}

// A window that another session has locked may be changing.
bool reports_arrivals(Oid table) {
    if (!ConditionalLockRelationOid(table, AccessShareLock))
        return false;
    Relation relation = try_relation_open(table, NoLock);
    const TriggerDesc *triggers = relation == nullptr ? nullptr : relation->trigdesc;
    const Oid function = member_trigger_function("idem_ring_row_arrived");
    bool reports = false;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; i++)
        reports =
            reports || (triggers->triggers[i].tgfoid == function && triggers->triggers[i].tgenabled == TRIGGER_FIRES_ALWAYS);
    if (relation != nullptr)
        relation_close(relation, NoLock);
    UnlockRelationOid(table, AccessShareLock);
    return reports;
}

void read_coverage(Ring *ring) {
    ring->filter_is_intact = false;
    for (int i = 0; i < ring->windows; i++)
        ring->window[i].is_filled = ring->window[i].reports_arrivals = ring->window[i].is_covered = false;
    ring->filter = get_relname_relid(filter_name(ring->id), extension().schema);
    if (!OidIsValid(ring->filter))
        return;
    Relation filter = open_locked_relation(ring->filter);
    if (!is_filter(filter) || filter->rd_index->indrelid != ring->map) {
        ring->filter = InvalidOid;
    } else {
        ring->filter_file = filter->rd_rel->relfilenode;
        const FilterState state = read_filter(filter);
        ring->filter_is_intact = state.is_intact;
        ring->shape = state.shape;
        ring->seed = state.seed;
        for (int i = 0; state.is_intact && i < Min(ring->windows, 8 * state.shape.position_bytes); i++) {
            RingWindow &window = ring->window[i];
            window.is_filled = OidIsValid(state.slices[i].file) && state.slices[i].file == window.file;
            window.reports_arrivals = reports_arrivals(window.table.relation);
            window.is_covered = window.is_filled && window.reports_arrivals;
        }
    }
    relation_close(filter, NoLock);
}

void sum_up_coverage(Ring *ring) {
    ring->covered = ring->uncovered = 0;
    for (int i = 0; i < ring->searched_count; i++) {
        const int window = ring->searched[i];
        (ring->window[window].is_covered ? ring->covered : ring->uncovered) |= uint32{1} << window;
    }
}

// REQUIRES: the map is locked.
void read_ring(Ring *ring) {
    const MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "idem ring", ALLOCSET_SMALL_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(memory);
    const uint64 changes = ring->changes;
    ring->is_being_read = true; // after an error, too: then any change makes no difference
    ring->retention = read_retention(ring->id);
    Relation map = open_locked_relation(ring->map);
    read_map(ring, map);
    relation_close(map, NoLock);
    order_windows(ring);
    read_coverage(ring);
    sum_up_coverage(ring);
    ring->is_being_read = false;
    ring->is_current = changes == ring->changes;
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(memory);
}

} // namespace

constinit Member ring_registry =
    member_table("idem_ring_registry", kRegistryColumns, RegistryColumn::id, InvalidAttrNumber, kAnyChecks);

char *map_name(int ring) { return psprintf("idem_ring_%d", ring); }
char *window_name(int ring, int window) { return psprintf("idem_ring_%d_%d", ring, window); }
char *filter_name(int ring) { return psprintf("idem_ring_%d_filter", ring); }

Ring *lock_ring_if_there(int id, LOCKMODE lock) {
    Ring &ring = remembered(id);
    for (;; check_for_interrupts()) {
        if (!ring.is_current)
            ring.map = get_relname_relid(map_name(id), extension().schema);
        if (!OidIsValid(ring.map)) {
            if (is_registered(id))
                raise_not_as_created(id, "The relation does not exist.");
            return nullptr;
        }
        const Oid map = ring.map;
        LockRelationOid(map, lock);
        AcceptInvalidationMessages(); // a lock that is already held receives none
        if (ring.is_current)
            return &ring;
        if (get_relname_relid(map_name(id), extension().schema) == map) {
            read_ring(&ring);
            return &ring; // what is reported from here on is for the next call
        }
        UnlockRelationOid(map, lock);
    }
}

Ring &lock_ring(int id, LOCKMODE lock) {
    Ring *ring = lock_ring_if_there(id, lock);
    if (ring == nullptr)
        raise_not_as_created(id, "The relation does not exist.");
    return *ring;
}

void unlock_ring(const Ring &ring, LOCKMODE lock) { UnlockRelationOid(ring.map, lock); }

Ring &ring_now(int id) {
    Ring &ring = lock_ring(id);
    unlock_ring(ring);
    return ring;
}

Ring *ring_if_there(int id) {
    Ring *ring = lock_ring_if_there(id);
    if (ring != nullptr)
        unlock_ring(*ring);
    return ring;
}

core::Micros retention_of(int id) {
    const Ring &ring = remembered(id);
    return ring.is_current ? ring.retention : ring_now(id).retention;
}

bool may_have_keys_through(const Ring &ring, int64 generation) {
    for (int i = 0; i < ring.windows; i++)
        if (core::is_searched(ring.window[i].state.state) && ring.window[i].state.generation <= generation)
            return true;
    return false;
}

const char *state_name(WindowState state) { return kStateNames[static_cast<int>(state)]; }

uint32 windows_to_search(const Ring &ring, const text *scope, const text *key) {
    if (ring.covered == 0)
        return ring.uncovered;
    Relation filter = open_locked_relation(ring.filter);
    if (filter->rd_rel->relfilenode != ring.filter_file) { // REINDEX has replaced it since
        relation_close(filter, NoLock);
        return ring.uncovered | ring.covered;
    }
    const uint32 maybe = windows_that_may_have(filter, ring.shape, ring.seed, hash_for_filter(ring.seed, scope, key));
    relation_close(filter, NoLock);
    return ring.uncovered | (ring.covered & maybe);
}

List *ring_entries() {
    List *entries = NIL;
    for_each_registered([&](HeapTuple row, TupleDesc layout) {
        bool is_null;
        auto *entry = static_cast<RingEntry *>(palloc(sizeof(RingEntry)));
        entry->id = DatumGetInt32(heap_getattr(row, RegistryColumn::id, layout, &is_null));
        entry->name = TextDatumGetCString(heap_getattr(row, RegistryColumn::ring, layout, &is_null));
        entry->retention = DatumGetIntervalP(
            datumCopy(heap_getattr(row, RegistryColumn::retention, layout, &is_null), false, sizeof(Interval)));
        entries = lappend(entries, entry);
    });
    return entries;
}

int ring_named(const text *name) {
    ListCell *cell;
    foreach (cell, ring_entries())
        if (strcmp(static_cast<RingEntry *>(lfirst(cell))->name, text_to_cstring(name)) == 0)
            return static_cast<RingEntry *>(lfirst(cell))->id;
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("ring \"%s\" does not exist", text_to_cstring(name)),
                    errhint("Create it with idem_ring_create.")));
    pg_unreachable();
}

namespace {

// Whether the relation is in the extension's schema, its owner is the extension's, and `has_name(const char *)` accepts its
// name.
template <typename HasName> bool is_ours_named(Oid relation, HasName has_name) {
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
    if (!HeapTupleIsValid(row))
        return false;
    auto *form = reinterpret_cast<Form_pg_class>(GETSTRUCT(row));
    const bool is_created =
        has_name(NameStr(form->relname)) && form->relnamespace == extension().schema && is_ours(form->relowner);
    ReleaseSysCache(row);
    return is_created;
}

} // namespace

bool is_named_as_map(Oid relation) {
    return is_ours_named(relation, [](const char *name) {
        int ring;
        return sscanf(name, "idem_ring_%d", &ring) == 1 && strcmp(name, map_name(ring)) == 0;
    });
}

bool is_named_as_window(Oid relation, int *ring, int *window) {
    return is_ours_named(relation, [&](const char *name) {
        return sscanf(name, "idem_ring_%d_%d", ring, window) == 2 && *window >= 0 && *window < kMaxWindows &&
               strcmp(name, window_name(*ring, *window)) == 0;
    });
}

bool is_registered(int ring) {
    ListCell *cell;
    foreach (cell, ring_entries())
        if (static_cast<RingEntry *>(lfirst(cell))->id == ring)
            return true;
    return false;
}

namespace {

bool is_window_of_a_ring(Oid relation) {
    int ring, window;
    return is_named_as_window(relation, &ring, &window) && is_registered(ring);
}

} // namespace

void rings_initialize() {
    table_of(KeySpace::keys).layout.is_child = is_window_of_a_ring; // nothing else may inherit from anything
    on_relation_change(relation_changed);
}

} // namespace idem
