// Requests whose key is missing or malformed.
#include <algorithm>

#include "http_test/cases.hpp"

namespace idem::cli::http_test {

namespace {

/// The operation with these lines of the field.
request with_lines(session &s, const std::vector<std::string> &lines) {
    request what = s.operation("");
    std::erase_if(what.headers, [](const auto &field) { return field.first == "Idempotency-Key"; });
    for (const std::string &line : lines)
        what.headers.emplace_back("Idempotency-Key", line);
    return what;
}

void expect_malformed(session &s, const std::vector<std::string> &lines) {
    const response seen = s.send(with_lines(s, lines));
    if (seen.status < 400 || seen.status > 499)
        throw failed{"400, or another 4xx", shown(seen)};
}

void missing_key(session &s) {
    const request what = with_lines(s, {});
    const response seen = s.send(what);
    if (s.rules().key_required) {
        s.expect_status(seen, s.rules().missing);
        if (s.rules().form != error_form::ucp)
            s.expect_form(seen, s.rules().missing);
        return;
    }
    if (!seen.is_success())
        throw failed{"an execution: the key is optional", shown(seen)};
    s.judge(seen, s.send(what), {.run = true});
}

void empty_key(session &s) { expect_malformed(s, {""}); }

void malformed_key(session &s) {
    for (const char *field : {"\"unterminated", "\"a\" \"b\"", "\"a\", \"b\"", "\"caf\xC3\xA9\"", "17", "?1", ":YQ==:"})
        expect_malformed(s, {field});
}

void two_lines(session &s) { expect_malformed(s, {s.new_key(), s.new_key()}); }

void too_long_key(session &s) {
    expect_malformed(s, {std::string(256, 'k')});
    const std::string longest = session::new_key_text() + std::string(255 - 36, 'k');
    s.succeed(s.operation(longest));
}

} // namespace

std::vector<test_case> key_cases() {
    return {
        {"key.missing", "a request without a key", missing_key},
        {"key.empty", "an empty key is rejected", empty_key},
        {"key.malformed", "a field that is no string of Structured Fields is rejected", malformed_key},
        {"key.two-lines", "two field lines with different keys are rejected", two_lines},
        {"key.too-long", "256 characters are rejected, 255 are not", too_long_key},
    };
}

} // namespace idem::cli::http_test
