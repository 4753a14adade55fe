// A nightly job that starts on three hosts at once: a look at last_run against idem_lock and idem_assert_fence.
#pragma once

#include <cstdint>

namespace demo::cron {

// Lets both halves through the same nights and prints how often the job ran. True: the proof holds.
bool prove(std::uint64_t seed);

} // namespace demo::cron
