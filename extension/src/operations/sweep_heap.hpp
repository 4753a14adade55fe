// The heap side of a sweep: walks a table block by block and deletes the rows that have expired, without an index on their
// expiry and without the executor.
//
// A row is judged by core::is_expired and by nothing else, and is deleted as the very version that was judged: one that was
// claimed again meanwhile is another version. Rows that somebody holds, for whatever purpose, are passed by: a sweep waits for
// no row, so it can be in no deadlock over one.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/key_space.hpp"

namespace idem {

// The next row to look at.
struct HeapPosition {
    BlockNumber block;
    OffsetNumber offset;
};

struct BatchLimits {
    int64 rows;         // delete no more than that
    core::Micros until; // monotonic_now(): and begin no page after that, except the first
};

struct Batch {
    int64 deleted;
    int64 held; // expired, but somebody holds them: left alone
    int64 blocks;
};

// Deletes from `position` on, up to and without block `end`, within the transaction; moves `position`. REQUIRES: an active
// snapshot; `end` is not beyond the relation.
Batch sweep_blocks(KeySpace space, Relation relation, HeapPosition *position, BlockNumber end, const BatchLimits &limits,
                   BufferAccessStrategy strategy);

} // namespace idem
