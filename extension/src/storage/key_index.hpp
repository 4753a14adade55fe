// Finding a key's entries in the unique index, for the hot path: a descent of the B-tree by its own search routines, but
// with a comparison that knows both columns to be bytewise text, and with a memory of the last leaf, so that sorted keys step
// along the leaves instead of descending anew.
//
// Only entries are found here, dead ones among them; whether one leads to a live row is for the heap to say. The leaf stays
// pinned until the next search: while it is, VACUUM cannot recycle the rows that its entries point to.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct IndexCursor {
    Relation table;
    Relation index;
    const text *scope; // what is searched, also as the B-tree's routines want it
    const text *key;
    BTScanInsertData search;
    Buffer leaf; // pinned, not locked; or InvalidBuffer
};

// The heap rows that the entries of one key point to. `overflow`: there are more, or they go on on another page; use an
// ordinary index scan.
struct IndexEntries {
    static constexpr int kMost = 16;
    ItemPointerData rows[kMost];
    int count;
    bool overflow;
};

// Lets the server's own routines compare the index's columns bytewise too, in this backend: an insertion descends with the
// comparison function that the relation cache holds, and in the "C" collation (which the catalog check has made sure of)
// bttextcmp gives the same answers, after asking each time which collation it is.
void use_bytewise_comparison(Relation index);

void open_cursor(IndexCursor *cursor, Relation table, Relation index);
void find_entries(IndexCursor *cursor, const text *scope, const text *key, IndexEntries *entries);
void close_cursor(IndexCursor *cursor);

} // namespace idem
