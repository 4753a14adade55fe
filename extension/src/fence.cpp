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

int64 next_fence(int64 floor) { return next_high_water_value(catalog().fence_high_water, unix_micros(), floor, kReserveAhead); }

} // namespace idem
