// A generator whose values never repeat, kept on the page of a sequence relation.
//
// The page holds the last value (last_value) and how far beyond it is reserved (log_cnt), under the buffer's content lock.
// A reservation is written to WAL and flushed before any value it covers is used. The WAL record, and so every replica and
// every recovered page, has last_value at the reserved mark: whoever takes over from there starts beyond all that was handed
// out. That the page was not logged since the last checkpoint's redo point (also after any restart) means the same: start
// beyond the mark, and log anew.
//
// A sequence is used because its page is what pg_dump, pg_upgrade and replication already know how to carry.
#pragma once

#include "pg.hpp"

namespace idem {

// The next value: at least `clock`, greater than `floor` and than all before it. `ahead`: how much to reserve at a time.
int64 next_high_water_value(Relation sequence, int64 clock, int64 floor, int64 ahead);

} // namespace idem
