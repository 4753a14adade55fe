// A generator whose values never repeat, stored on the page of a sequence relation.
//
// The page holds the last value (last_value) and the number of values reserved after it (log_cnt). The buffer's content lock
// guards both. A reservation is written to WAL and flushed before any of its values is used. A caller that uses one before
// the synchronous standbys have that WAL waits for them at commit.
//
// In the WAL record, and therefore on every replica and every recovered page, last_value is the reserved mark. A server that
// starts from such a page begins beyond all issued values. A page that was not logged since the last checkpoint's redo point is
// treated alike: the next value lies beyond the mark, and the page is logged again. That includes the first use after a
// restart.
//
// A sequence is used because pg_dump, pg_upgrade and replication already copy its page.
#pragma once

#include "core/high_water.hpp"
#include "server/pg.hpp"

namespace idem {

// A page that is locked for the next value. An error releases it unchanged.
struct HighWaterPage {
    Relation sequence;
    Buffer buffer;
    core::HighWater mark;
    bool restarted;

    // The next value must be greater.
    int64 last() const { return core::greatest_used(mark, restarted); }
};

HighWaterPage lock_high_water(Relation sequence);

// Marks `value` as issued and releases the page. `ahead`: how many values to reserve at a time. REQUIRES: value > page.last().
void advance_high_water(const HighWaterPage &page, int64 value, int64 ahead);

} // namespace idem
