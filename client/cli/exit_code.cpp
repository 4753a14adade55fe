#include "exit_code.hpp"

#include <cstdio>
#include <stdexcept>
#include <system_error>

#include <idem/error.hpp>

#include "usage.hpp"

namespace idem::cli {

const std::vector<exit_meaning> &exit_meanings() {
    static const std::vector<exit_meaning> all{
        {"0", "done; run, lock, step: the command succeeded, now or when its key was first used"},
        {"1", "the answer is no: done before, no such key, a token or transition rejected, a health check or a case of "
              "http-test failed"},
        {"2", "http-test: wrong usage, or the server cannot be reached or rejects the request under test"},
        {"64", "usage: an invalid option or value, rejected here or by the server"},
        {"65", "mismatch: the key was used for another command, or for something that is not a command"},
        {"69", "the database cannot be reached, or the connection was lost before anything was done"},
        {"70", "an internal error"},
        {"71", "the system refused: no more processes or files"},
        {"74", "the result could not be written to standard output"},
        {"75", "try again later: the key is in flight, the lock or row is held by another caller"},
        {"76", "the lease was lost: the command was stopped, or ended too late, and its result is not recorded"},
        {"77", "privileges are missing, or the server is read-only"},
        {"78", "the extension is not installed in this database, or is too old for this subcommand"},
        {"79", "in doubt: a holder vanished, and the scope's policy leaves the decision to an operator"},
        {"80", "unknown: the connection was lost, and the change may or may not be recorded"},
        {"126", "run, lock, step: the command was found, but cannot be executed"},
        {"127", "run, lock, step: the command was not found"},
        {"128+n", "run, lock, step: signal n ended the command, or idem before the command started"},
        {"other", "run, lock, step: the exit code of the command"},
    };
    return all;
}

void complain(const std::string &text) {
    // In one write, so that the lines of several processes do not mix.
    const std::string line = "idem: " + text + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
}

namespace {

template <typename Error> bool is(const std::exception &problem) { return dynamic_cast<const Error *>(&problem) != nullptr; }

struct rule {
    bool (*matches)(const std::exception &);
    int code;
    bool expected;
};

// The first rule that matches counts.
constexpr rule rules[] = {
    {is<in_flight>, kTryAgain, true},
    {is<busy>, kTryAgain, true},
    {is<transient>, kTryAgain, false},
    {is<in_doubt>, kInDoubt, false},
    {is<mismatch>, kMismatch, false},
    {is<stale_fence>, kLeaseLost, false},
    {is<outcome_unknown>, kUnknown, false},
    {is<connection_lost>, kUnavailable, false},
    {is<denied>, kDenied, false},
    {is<read_only>, kDenied, false},
    {is<not_installed>, kNotInstalled, false},
    {is<not_allowed>, kNo, false},
    {is<not_found>, kNo, false},
    {is<cancelled>, kTryAgain, false},
    {is<bad_input>, kUsage, false},
    {is<usage_error>, kUsage, false},
    {is<std::system_error>, kSystem, false},
};

} // namespace

int report(const std::exception &problem, bool quiet) {
    if (const auto *failure = dynamic_cast<const exit_error *>(&problem)) {
        complain(failure->what());
        return failure->code();
    }
    for (const rule &each : rules)
        if (each.matches(problem)) {
            if (!(quiet && each.expected))
                complain(problem.what());
            return each.code;
        }
    complain(problem.what());
    return kInternal;
}

} // namespace idem::cli
