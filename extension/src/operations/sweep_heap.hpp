// A sweep's work on the heap: reads a table block by block, deletes expired rows and removes expired responses, without an
// index on expiry and without the executor.
//
// Only core::is_expired decides whether a row is deleted, and only core::is_response_expired whether its response is removed.
// The sweep changes exactly the version that it checked; a row that was claimed again meanwhile has another version. It skips
// every row that another transaction holds. It therefore waits for no row and cannot take part in a deadlock over one.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"
#include "storage/key_space.hpp"

namespace idem {

// The next row to check.
struct HeapPosition {
    BlockNumber block;
    OffsetNumber offset;
};

struct BatchLimits {
    int64 rows;         // the most rows to change
    core::Micros until; // monotonic_now(); no page begins later, except the first
};

struct Batch {
    int64 deleted;  // rows
    int64 redacted; // rows whose response was removed
    int64 held;     // rows that were due, but skipped because another transaction holds them
    int64 blocks;

    int64 changed() const { return deleted + redacted; }
};

struct SweptTable {
    KeySpace space;
    bool is_window; // of a ring: it is emptied as a whole, so its rows are not deleted
};

// Deletes expired rows, and removes expired responses, from `position` up to, but not including, block `end` in the current
// transaction. Advances `position`. REQUIRES: an active snapshot; `end` is not beyond the relation.
Batch sweep_blocks(const SweptTable &table, Relation relation, HeapPosition *position, BlockNumber end,
                   const BatchLimits &limits, BufferAccessStrategy strategy);

} // namespace idem
