// The row versions on one page of a table.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Calls `visit(HeapTuple)` for each version from item `from` on. REQUIRES: the buffer is locked. `visit` only reads the
// version, copies it or checks its visibility.
template <typename Visit> void for_each_version(Relation table, Buffer buffer, OffsetNumber from, Visit visit) {
    Page page = BufferGetPage(buffer);
    const OffsetNumber last = PageGetMaxOffsetNumber(page);
    for (OffsetNumber at = from; at <= last; at = OffsetNumberNext(at)) {
        ItemId item = PageGetItemId(page, at);
        if (!ItemIdIsNormal(item))
            continue;
        HeapTupleData version;
        version.t_tableOid = RelationGetRelid(table);
        version.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        version.t_len = ItemIdGetLength(item);
        ItemPointerSet(&version.t_self, BufferGetBlockNumber(buffer), at);
        visit(&version);
    }
}

} // namespace idem
