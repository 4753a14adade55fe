// How `idem` ends. Scripts rely on these numbers: they never change their meaning.
#pragma once

#include <string>
#include <vector>

namespace idem::cli {

enum exit_code : int {
    kDone = 0,
    kNo = 1,
    kUsage = 64,
    kMismatch = 65,
    kUnavailable = 69,
    kInternal = 70,
    kSystem = 71,
    kOutput = 74,
    kTryAgain = 75,
    kLeaseLost = 76,
    kDenied = 77,
    kNotInstalled = 78,
    kInDoubt = 79,
    kUnknown = 80,
    kNotExecutable = 126,
    kNotFound = 127,
    kSignal = 128, // + its number
};

struct exit_meaning {
    const char *code;
    const char *meaning;
};

/// What --help, the man page and the documentation list.
const std::vector<exit_meaning> &exit_meanings();

/// Tells on stderr what an exception means, and returns the exit code that stands for it. What is nobody's mistake (somebody
/// else holds the key) is told only when `quiet` is false.
int report(const std::exception &problem, bool quiet);

/// A line on stderr that begins with "idem: ".
void complain(const std::string &text);

} // namespace idem::cli
