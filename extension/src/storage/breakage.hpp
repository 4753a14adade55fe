// For the test of the tests alone: a library that is built with `make IDEM_BREAK=…` leaves out one of the checks that
// everything rests on, so that the chaos run can show that it notices (scripts/chaos.sh --break). Nobody else builds one.
#pragma once

#include <string_view>

#ifndef IDEM_BREAK
#define IDEM_BREAK ""
#endif

namespace idem {

inline constexpr std::string_view kBreak{IDEM_BREAK};
static_assert(kBreak.empty() || kBreak == "unique" || kBreak == "fence" || kBreak == "recheck",
              "IDEM_BREAK is unique, fence or recheck");

// A new key is inserted whether or not the index has it already.
inline constexpr bool kIgnoreUniqueIndex = kBreak == "unique";
// Any fence is taken for the holder's.
inline constexpr bool kIgnoreFence = kBreak == "fence";
// Who has waited for a holder takes the key for free, without looking what the holder left.
inline constexpr bool kIgnoreWhatCameMeanwhile = kBreak == "recheck";

} // namespace idem
