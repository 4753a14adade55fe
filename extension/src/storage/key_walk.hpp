// Walking over the pages of a table of keys, for who wants to know of all keys and not of one.
//
// One page at a time is read into a small ring of buffers, so that the walk does not push others' pages out of memory, and is
// locked as any reader locks it; between two pages the walk can be cancelled. It is no snapshot: a row that moves while it
// walks may be met twice, or not at all.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct KeyWalk {
    Relation table;
    BufferAccessStrategy ring;
    BlockNumber blocks; // when they were counted
};

inline KeyWalk begin_walk(Relation table) { return {table, GetAccessStrategy(BAS_BULKREAD), RelationGetNumberOfBlocks(table)}; }

// Whether there are more pages now; counts them anew.
inline bool has_grown(KeyWalk *walk) {
    const BlockNumber before = walk->blocks;
    walk->blocks = RelationGetNumberOfBlocks(walk->table);
    return walk->blocks > before;
}

inline void end_walk(const KeyWalk &walk) { FreeAccessStrategy(walk.ring); }

// Calls `visit(HeapTuple, Buffer, bool all_visible)` for each row version on the page, while the page is locked: it may copy a
// row and ask for its visibility, and nothing else.
template <typename Visit> void walk_page(const KeyWalk &walk, BlockNumber block, Visit visit) {
    CHECK_FOR_INTERRUPTS();
    Buffer buffer = ReadBufferExtended(walk.table, MAIN_FORKNUM, block, RBM_NORMAL, walk.ring);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    // What the primary found visible to all may be too new for a standby's snapshot.
    const bool all_visible = PageIsAllVisible(page) && !RecoveryInProgress();
    const OffsetNumber last = PageGetMaxOffsetNumber(page);
    for (OffsetNumber at = FirstOffsetNumber; at <= last; at++) {
        ItemId item = PageGetItemId(page, at);
        if (!ItemIdIsNormal(item))
            continue;
        HeapTupleData version;
        version.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        version.t_len = ItemIdGetLength(item);
        version.t_tableOid = RelationGetRelid(walk.table);
        ItemPointerSet(&version.t_self, block, at);
        visit(&version, buffer, all_visible);
    }
    UnlockReleaseBuffer(buffer);
}

} // namespace idem
