// The cases of `idem http-test`, in the order in which they run. docs/conformance.md lists them.
#pragma once

#include <string_view>
#include <vector>

#include "http_test/session.hpp"

namespace idem::cli::http_test {

/// `run` returns if the case passed; otherwise it throws failed or skipped. A profile without a rule for the case
/// (source_of()) does not have it.
struct test_case {
    std::string_view id, title;
    void (*run)(session &);
};

std::vector<test_case> replay_cases();
std::vector<test_case> key_cases();
std::vector<test_case> mismatch_cases();
std::vector<test_case> json_cases();
std::vector<test_case> race_cases();
std::vector<test_case> error_cases();
std::vector<test_case> reference_cases(); ///< of --reference
std::vector<test_case> effect_cases();    ///< after all others

/// The requests again, every 100 ms, until the answer is another than "in flight" or a server error; at most the time limit.
response retry(session &s, const request &what, std::chrono::milliseconds limit);

} // namespace idem::cli::http_test
