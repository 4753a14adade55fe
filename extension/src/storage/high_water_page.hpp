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

#include "core/high_water.hpp"
#include "server/pg.hpp"

namespace idem {

// A page that is locked for the next value. An error in between lets it go as it was.
struct HighWaterPage {
    Relation sequence;
    Buffer buffer;
    core::HighWater mark;
    bool restarted;

    // What the next value has to exceed.
    int64 last() const { return core::greatest_used(mark, restarted); }
};

HighWaterPage lock_high_water(Relation sequence);

// Hands `value` out and lets the page go. `ahead`: how much to reserve at a time. REQUIRES: value > page.last().
void advance_high_water(const HighWaterPage &page, int64 value, int64 ahead);

} // namespace idem
