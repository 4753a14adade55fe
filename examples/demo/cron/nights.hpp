// The load: what each night has in store for the job and its hosts. It is made from a seed alone, so that both halves get
// the same.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace demo::cron {

inline constexpr std::size_t kHosts = 3;
inline constexpr std::size_t kNights = 30;
inline constexpr std::size_t kDeaths = 3;
inline constexpr std::size_t kPauses = 4;
inline constexpr std::size_t kLongNights = 1;
inline constexpr std::chrono::milliseconds kLease{200};

// What happens to the host that is the first to begin the job.
enum class Mishap {
    none,
    dies,   // its connection is gone just before COMMIT, and it does not come back that night
    paused, // it stands still, and when it goes on, the others are through with the night
};

struct Night {
    Mishap mishap;
    std::chrono::milliseconds work_time;
    std::array<std::chrono::milliseconds, kHosts> late_by; // by host: clocks differ a little
};

using Load = std::vector<Night>; // night 1 stands first
Load make_load(std::uint64_t seed);

} // namespace demo::cron
