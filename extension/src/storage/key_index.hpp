// Finds a key's entries in the unique index, for the hot path. The search descends the B-tree as the server's own does
// (nbtsearch.c), with two differences. It relies on both columns being bytewise text. Sorted keys are searched for in groups,
// whose cursor remembers the page above the last leaf.
//
// The result may contain entries of dead rows; the caller checks visibility in the heap. The leaf stays pinned until the next
// search. While it is pinned, VACUUM cannot recycle the rows that its entries point to.
#pragma once

#include "server/pg.hpp"

namespace idem {

// A key as tables and indexes store it: the scope's column, and behind it the key's.
struct StoredKey {
    const text *scope;
    const text *key;
    char scope_column[VARATT_SHORT_MAX + 1]; // the scope with a short header
    Size scope_size;                         // of it; 0: the scope is too long for one

    void set(const text *new_scope, const text *new_key);

    // Compares this key with the two columns at `stored`, in the order of the index. `columns`: how many are there; a column
    // that is missing is less than any value. False: a column is stored compressed.
    bool compare(const char *stored, int columns, int *order) const;
};

// How many keys are searched for at a time.
inline constexpr int kKeysPerGroup = 8;

struct IndexCursor {
    Relation table;
    Relation index;
    StoredKey wanted;
    BTScanInsertData search; // (scope, key) for the server's routines, which compare what is stored compressed
    bool is_searchable;      // false: an index in the form of servers before 12, which only the server's routines read
    // Pinned, not locked; or InvalidBuffer.
    Buffer leaf;
    Buffer parent; // above the leaves of the last group
    // What the parent said of the last key, which holds as long as its page has this LSN: the child, and the entry behind that.
    XLogRecPtr parent_lsn;
    BlockNumber child;
    OffsetNumber behind_child; // or InvalidOffsetNumber: it is not known
    Buffer group[kKeysPerGroup];
};

// The heap rows that the entries of one key point to.
struct IndexEntries {
    static constexpr int kMaxRows = 16;
    ItemPointerData rows[kMaxRows];
    int count;
    bool overflow; // the key has more entries than `rows`: use an ordinary index scan
};

// REQUIRES: both columns are in the "C" collation; member.cpp checks it.
void open_cursor(IndexCursor *cursor, Relation table, Relation index);
void find_entries(IndexCursor *cursor, const text *scope, const text *key, IndexEntries *entries);

// As find_entries for each of up to kKeysPerGroup keys. The searches go on step by step together, so that the processor waits
// for the memory of all of them at once. REQUIRES: sorted keys, also those of one group and the next.
void find_entries_of_group(IndexCursor *cursor, const text *scope, const text *const *keys, int count, IndexEntries *entries);
void close_cursor(IndexCursor *cursor);

} // namespace idem
