// The pages of a ring's filter (core/ring_filter.hpp): those of an index of the access method idem_filter, on the ring's map.
//
// It is an index because everything else then treats it as it should. pg_dump writes its definition and no contents, pg_upgrade
// and physical replication copy its pages, VACUUM and pg_amcheck pass it by, and REINDEX makes an empty one. An empty filter
// names no window, and a window that the filter does not name is searched by its index.
//
// Page 0 says which windows the filter covers, each by its table's relfilenode: a table that was emptied, restored or rewritten
// has another one. What a session remembers of page 0 may be stale, and no claim is wrong for it: a window that was covered
// stays so while its file is the same, and a page that was written after the filter had grown says "maybe" to those who do not
// know it.
//
// All changes are logged as generic WAL, the slices of a window before the page that names it. So the filter is right after a
// crash, on a standby, and at any point that a recovery ends at.
//
// A page that is not what it should be, because the disk lost it, says "maybe" of every key.
#pragma once

#include "core/ring_filter.hpp"
#include "server/pg.hpp"

namespace idem {

// What page 0 says of a window.
struct SliceState {
    Oid file; // the relfilenode of the table whose keys are in the filter; InvalidOid: of none
    uint64 keys;
    float4 false_positives; // the share of them, measured when the slice was written
};

struct FilterState {
    bool is_intact; // false: page 0 is damaged, or pages are missing; then no window is covered
    core::FilterShape shape;
    uint64 seed;
    SliceState slices[core::kMaxFilterWindows];
};

// Makes the pages of an empty filter for so many windows. REQUIRES: the index has no page.
void init_filter(Relation filter, int windows);

FilterState read_filter(Relation filter);

// The hash of a key, and the windows that may have it, as bits. Bits of windows that are not covered mean nothing.
uint64 hash_for_filter(uint64 seed, const text *scope, const text *key);
uint32 windows_that_may_have(Relation filter, const core::FilterShape &shape, uint64 seed, uint64 hash);

// Writes the filter for one window:
//
//     const uint64 token = announce_slice(filter, window);     from now on, foreign_row_arrives stops it
//     grow_filter(filter, keys);
//     write_slice(filter, seed, slice, window);                for some pages after the others
//     publish_slice(filter, window, token, state);             false: it was stopped
//
// REQUIRES: one caller at a time.
uint64 announce_slice(Relation filter, int window);
core::FilterShape grow_filter(Relation filter, uint64 keys);
void write_slice(Relation filter, uint64 seed, const core::FilterSlice &slice, int window);
bool publish_slice(Relation filter, int window, uint64 token, const SliceState &state);

// Whether the filter covers the window or is about to, or a session may believe that it does: after drop_slice, until the slice
// is written again, because the change is there at once and other sessions learn of it when the transaction commits. A damaged
// head may be intact on a standby, until drop_slice has taken its contents away.
bool is_slice_in_use(Relation filter, int window);
// Makes the filter cover the window no longer.
void drop_slice(Relation filter, int window);

// The number of pages that are damaged.
int64 count_damaged_pages(Relation filter);

} // namespace idem
