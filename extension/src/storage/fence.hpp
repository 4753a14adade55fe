// Fencing tokens: numbers that only increase in this database, across takeover, release, expiry, crash and promotion.
#pragma once

#include "storage/member.hpp"

namespace idem {

extern Member fence_high_water;

// Issues a fence, greater than all earlier ones and than `floor`. A rollback does not undo it, and other callers do not wait
// for this transaction's end. REQUIRES: a transaction that may write.
int64 next_fence(int64 floor);

} // namespace idem
