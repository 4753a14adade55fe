// The results of the cases, as text, JSON and JUnit.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace idem::cli::http_test {

enum class result { passed, failed, skipped };

struct verdict {
    std::string id, title, rule;
    result outcome = result::passed;
    std::string expected = {}, seen = {}, needs = {};
    std::chrono::milliseconds took{0};
};

struct report {
    std::string url, profile;
    std::vector<verdict> verdicts;

    std::size_t count(result outcome) const;
    std::string badge() const;
};

/// One line for a case; below a failure, what was expected and seen, and the rule's source.
std::string as_text(const verdict &one);
/// The lines at the end.
std::string summary(const report &all);
std::string as_json(const report &all);
std::string as_junit(const report &all);

} // namespace idem::cli::http_test
