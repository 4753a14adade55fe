// Fencing tokens: numbers that only ever grow in this database, across takeover, release, expiry, crash and promotion.
#pragma once

#include "storage/member.hpp"

namespace idem {

extern Member fence_high_water;

// A new fence, greater than every one handed out before and than `floor`. Never rolls back, and makes no other
// caller wait for this transaction's end. REQUIRES: a transaction that may write.
int64 next_fence(int64 floor);

} // namespace idem
