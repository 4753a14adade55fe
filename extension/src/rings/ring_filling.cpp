#include "rings/ring_filling.hpp"

#include "server/compat.hpp"
#include "server/pause.hpp"
#include "server/random.hpp"
#include "storage/key_space.hpp"
#include "storage/page_rows.hpp"
#include "storage/ring_filter_pages.hpp"

namespace idem {

namespace {

using core::FilterShape;
using core::FilterSlice;

constexpr int kProbes = 20'000; // to measure the share of false positives

// What is read from a window.
struct Contents {
    uint64 keys;
    core::Micros until;
};

text *plain_text(HeapTuple row, AttrNumber column, TupleDesc layout) {
    bool is_null;
    return DatumGetTextPP(heap_getattr(row, column, layout, &is_null));
}

bool is_plain(HeapTuple row, TupleDesc layout) {
    bool is_null;
    for (const AttrNumber column : {KeyColumn::scope, KeyColumn::key}) {
        const auto *value = DatumGetPointer(heap_getattr(row, column, layout, &is_null));
        if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
            return false;
    }
    return true;
}

// Calls `add(HeapTuple)` for each version in the table, committed or not: what may still be committed belongs into the filter.
template <typename Add> Contents read_window(Relation table, Add add) {
    Contents contents{};
    TupleDesc layout = RelationGetDescr(table);
    BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
    const BlockNumber blocks = RelationGetNumberOfBlocks(table);
    for (BlockNumber block = 0; block < blocks; block++) {
        CHECK_FOR_INTERRUPTS();
        Buffer buffer = ReadBufferExtended(table, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
        HeapTuple packed[MaxHeapTuplesPerPage]; // detoasted after the lock is released
        int packed_count = 0;
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        for_each_version(table, buffer, FirstOffsetNumber, [&](HeapTuple row) {
            bool is_null;
            contents.keys += !HeapTupleIsHeapOnly(row);
            contents.until =
                Max(contents.until, DatumGetTimestampTz(heap_getattr(row, KeyColumn::expires_at, layout, &is_null)));
            if (is_plain(row, layout))
                add(row);
            else
                packed[packed_count++] = heap_copytuple(row);
        });
        UnlockReleaseBuffer(buffer);
        for (int i = 0; i < packed_count; i++)
            add(packed[i]);
    }
    FreeAccessStrategy(strategy);
    return contents;
}

Contents read_window(Relation table) {
    return read_window(table, [](HeapTuple) {});
}

// Whether no transaction that is open has written to the window.
bool has_no_writers(Relation table) {
    if (!ConditionalLockRelation(table, ShareLock))
        return false;
    UnlockRelation(table, ShareLock);
    return true;
}

float4 measure_false_positives(const FilterSlice &slice) {
    int positives = 0, probes = 0;
    for (int i = 0; i < kProbes; i++) {
        uint64 hash;
        fill_random(&hash, sizeof hash);
        const uint32 page = core::place_of(slice.shape, hash).page;
        if (page < slice.first_page || page - slice.first_page >= slice.page_count)
            continue;
        probes++;
        positives += slice.may_contain(hash);
    }
    return probes == 0 ? 0 : static_cast<float4>(positives) / static_cast<float4>(probes);
}

// Writes the window's bits, some pages of the filter after the others, as memory allows. Returns the share of false positives.
float4 write_slices(Relation filter, Relation table, const FilterShape &shape, uint64 seed, int window) {
    const Size per_page = FilterSlice::bytes_per_page(shape);
    const uint64 most = Max(static_cast<uint64>(maintenance_work_mem) * 1024 / per_page, uint64{1});
    TupleDesc layout = RelationGetDescr(table);
    float4 false_positives = 0;
    for (uint32 first = 0; first < shape.pages;) {
        FilterSlice slice{shape, first, static_cast<uint32>(Min(most, uint64{shape.pages - first})), nullptr};
        slice.bits = static_cast<unsigned char *>(
            MemoryContextAllocExtended(CurrentMemoryContext, slice.bytes(), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
        const MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext, "idem filling", ALLOCSET_DEFAULT_SIZES);
        const MemoryContext outer = MemoryContextSwitchTo(rows);
        (void)read_window(table, [&](HeapTuple row) {
            slice.add(
                hash_for_filter(seed, plain_text(row, KeyColumn::scope, layout), plain_text(row, KeyColumn::key, layout)));
        });
        MemoryContextSwitchTo(outer);
        MemoryContextDelete(rows);
        write_slice(filter, seed, slice, window);
        false_positives +=
            measure_false_positives(slice) * static_cast<float4>(slice.page_count) / static_cast<float4>(shape.pages);
        first += slice.page_count;
        pfree(slice.bits);
    }
    return false_positives;
}

} // namespace

bool may_be_in_filter(const Ring &ring, int window) {
    return OidIsValid(ring.filter) && (!ring.filter_is_intact || ring.window[window].reports_arrivals);
}

Filled fill_filter(const Ring &ring, int window) {
    auto &member = const_cast<RingWindow &>(ring.window[window]).table;
    Relation table = open_member_if_unlocked(member, AccessShareLock);
    if (table == nullptr)
        return {Filling::blocked, 0};
    const Oid file = table->rd_rel->relfilenode;
    Filled filled{Filling::blocked, 0};
    if (!may_be_in_filter(ring, window)) {
        (void)lock_ring(ring.id); // until the commit: rows that come other than by a claim wait for it
        if (ring.window[window].is_filled) {
            Relation filter = index_open(ring.filter, AccessShareLock);
            drop_slice(filter, window);
            index_close(filter, NoLock);
        }
        if (has_no_writers(table))
            filled = {Filling::done, Max(read_window(table).until, core::Micros{1})};
        relation_close(table, NoLock);
        return filled;
    }
    if (compat_has_new_file(table)) { // a rollback would bring its rows back, and leave the filter as it is
        relation_close(table, NoLock);
        return filled;
    }
    Relation filter = index_open(ring.filter, AccessShareLock);
    const FilterState state = read_filter(filter);
    if (!state.is_intact || window >= 8 * state.shape.position_bytes) {
        filled.result = Filling::damaged;
    } else if (has_no_writers(table)) {
        const uint64 token = announce_slice(filter, window);
        // A row that comes from here on, other than by a claim, takes the announcement back.
        if (has_no_writers(table)) {
            const Contents contents = read_window(table);
            const FilterShape shape = grow_filter(filter, contents.keys);
            const float4 false_positives = write_slices(filter, table, shape, state.seed, window);
            // Rows that come other than by a claim wait for the map from here to the commit, and then find the window's
            // `until`.
            if (ConditionalLockRelationOid(ring.map, RowExclusiveLock) &&
                publish_slice(filter, window, token, {file, contents.keys, false_positives}))
                filled = {Filling::done, Max(contents.until, core::Micros{1})};
            pause_at("slice published");
        }
    }
    index_close(filter, NoLock);
    relation_close(table, NoLock);
    return filled;
}

} // namespace idem
