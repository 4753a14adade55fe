#include "fence.hpp"

#include "catalog.hpp"
#include "high_water_page.hpp"

namespace idem {

namespace {

// One reservation serves about this many microseconds of wall clock.
constexpr int64 kReserveAhead = USECS_PER_SEC;

// Fences start from the Unix clock in microseconds, so that they grow even where a database was restored from an old copy.
int64 unix_micros() { return GetCurrentTimestamp() + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY; }

} // namespace

int64 next_fence(int64 floor) {
    Relation sequence = open_member(&Catalog::fence_high_water, RowExclusiveLock);
    const int64 fence = next_high_water_value(sequence, unix_micros(), floor, kReserveAhead);
    relation_close(sequence, NoLock);
    return fence;
}

} // namespace idem
