#include "storage/fence.hpp"

#include "storage/high_water_page.hpp"

namespace idem {

namespace {

// In microseconds, as fences follow the system time.
constexpr int64 kReserveAhead = USECS_PER_SEC;

// Fences are at least the Unix time in microseconds, so that they grow even after a restore from an old copy.
int64 unix_micros() { return GetCurrentTimestamp() + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY; }

} // namespace

constinit Member fence_high_water = member_sequence("idem_fence_high_water");

int64 next_fence(int64 floor) {
    Relation sequence = open_member(fence_high_water, RowExclusiveLock);
    const int64 now = unix_micros();
    const HighWaterPage page = lock_high_water(sequence);
    const int64 fence = core::next_value(page.last(), now, floor);
    advance_high_water(page, fence, kReserveAhead);
    relation_close(sequence, NoLock);
    return fence;
}

} // namespace idem
