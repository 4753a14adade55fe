// The clock by which a holder knows how long its lease is valid.
#pragma once

#include <chrono>
#include <ctime>

namespace idem::detail {

/// Never set, and not stopped while the machine sleeps, because the database's clock goes on meanwhile.
struct lease_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<lease_clock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept {
#ifdef CLOCK_BOOTTIME
        timespec time{};
        if (clock_gettime(CLOCK_BOOTTIME, &time) == 0)
            return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
#endif
        return time_point(std::chrono::steady_clock::now().time_since_epoch());
    }
};

} // namespace idem::detail
