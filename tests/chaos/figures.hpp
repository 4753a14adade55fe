// What a run counts: most of it from its histories, the rest by who does it.
#pragma once

#include <atomic>
#include <cstdint>
#include <iosfwd>

#include "history.hpp"

namespace chaos {

struct Figures {
    std::uint64_t transactions = 0, calls = 0, committed = 0, aborted = 0, prepared = 0;
    std::uint64_t taken_over = 0, stale_fences = 0, serialization_failures = 0, deadlocks = 0, canceled = 0;
    std::uint64_t unknown = 0, unknown_committed = 0, unknown_undone = 0; // the rest left no trace by which to tell
    std::uint64_t undecided = 0, violations = 0;
    // By the nemesis and the clients, while they are at it.
    std::atomic<std::uint64_t> cuts{0}, cancels{0}, terminations{0}, crashes{0}, backend_kills{0}, checkpoints{0}, vacuums{0},
        rotations{0}, moves{0};

    void add(const History &history);
};

std::ostream &operator<<(std::ostream &out, const Figures &figures);

} // namespace chaos
