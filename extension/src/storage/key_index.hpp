// Finds a key's entries in the unique index, for the hot path. The search descends the B-tree by the server's own routines,
// with two differences. Its comparison function relies on both columns being bytewise text. The cursor remembers the last leaf,
// so a search for sorted keys steps along the leaves instead of descending again.
//
// The result may contain entries of dead rows; the caller checks visibility in the heap. The leaf stays pinned until the next
// search. While it is pinned, VACUUM cannot recycle the rows that its entries point to.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct IndexCursor {
    Relation table;
    Relation index;
    const text *scope;
    const text *key;
    BTScanInsertData search; // (scope, key) for the B-tree's routines
    Buffer leaf;             // pinned, not locked; or InvalidBuffer
};

// The heap rows that the entries of one key point to.
struct IndexEntries {
    static constexpr int kMaxRows = 16;
    ItemPointerData rows[kMaxRows];
    int count;
    bool overflow; // the key has more entries than `rows`: use an ordinary index scan
};

// Makes the server's own routines compare the index's columns bytewise in this backend. An insertion descends with the
// comparison function of the relation cache, bttextcmp, which looks up the collation for each comparison. REQUIRES: the "C"
// collation, in which both functions return the same; member.cpp checks it.
void use_bytewise_comparison(Relation index);

void open_cursor(IndexCursor *cursor, Relation table, Relation index);
void find_entries(IndexCursor *cursor, const text *scope, const text *key, IndexEntries *entries);
void close_cursor(IndexCursor *cursor);

} // namespace idem
