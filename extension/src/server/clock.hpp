// The clocks. No other file of the extension reads one, except where core files are given the time.
//
// A time that decides an outcome, or from which a lease or a retention counts, is read after the last wait before its use, and
// once for each decision. tests/tree/clock lists every call with the wait that it follows.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"

#include <ctime>

namespace idem {

// Database time in microseconds, as a timestamptz; 'infinity' is core::kForever.
inline core::Micros clock_now() { return GetCurrentTimestamp(); }

// Whether so much time has passed that the caller may have waited: for a lock, or for the processor. A shorter wait is shorter
// than the processor may be taken from a process that is about to return its answer.
inline bool may_have_waited(core::Micros since, core::Micros now) { return now - since > 10'000; }

// From 1970, where other clocks begin, to the time that is 0 here.
inline constexpr core::Micros kMicrosFrom1970 = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

// A clock in microseconds for durations within one process. A change of the system time does not affect it. It is not the
// server's instr_time, which PostgreSQL 19 may read from another clock after a change of timing_clock_source.
inline core::Micros monotonic_now() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

} // namespace idem
