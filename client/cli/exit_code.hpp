// The exit codes of `idem`. Scripts rely on them: their meaning never changes.
#pragma once

#include <string>
#include <vector>

namespace idem::cli {

// Constants and not an enumeration: `run` and `lock` pass the exit codes of their commands on too.
inline constexpr int kDone = 0;
inline constexpr int kNo = 1;
inline constexpr int kNotTested = 2; // by http-test
inline constexpr int kUsage = 64;
inline constexpr int kMismatch = 65;
inline constexpr int kUnavailable = 69;
inline constexpr int kInternal = 70;
inline constexpr int kSystem = 71;
inline constexpr int kOutput = 74;
inline constexpr int kTryAgain = 75;
inline constexpr int kLeaseLost = 76;
inline constexpr int kDenied = 77;
inline constexpr int kNotInstalled = 78;
inline constexpr int kInDoubt = 79;
inline constexpr int kUnknown = 80;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignal = 128; // + its number

struct exit_meaning {
    const char *code;
    const char *meaning;
};

/// As --help, the man page and the documentation list them.
const std::vector<exit_meaning> &exit_meanings();

/// Reports an exception on stderr and returns its exit code. `quiet`: errors that are expected in operation (another caller
/// holds the key or the lock) are not reported.
int report(const std::exception &problem, bool quiet);

/// A line on stderr that begins with "idem: ".
void complain(const std::string &text);

} // namespace idem::cli
