// Which bodies are the same request.
#include "http_test/cases.hpp"
#include "http_test/vary.hpp"

namespace idem::cli::http_test {

namespace {

using variation = std::optional<std::string> (*)(const std::string &);

/// The second body in the place of the first. Where the protocol is open, both answers are right; an execution never is.
void compare(session &s, variation vary, bool same_value, const char *needs) {
    const std::optional<std::string> body = vary(s.options().body);
    if (!body || *body == s.options().body)
        session::need(needs);
    const bool is_open = s.rules().bodies == equality::open;
    const bool is_same = s.rules().bodies == equality::json && same_value;
    allowed what;
    what.replay = is_open || is_same;
    if (is_open || !is_same)
        what.refused = s.rules().mismatch;
    const std::string key = s.new_key();
    const response first = s.succeed(s.operation(key));
    s.judge(first, s.send(s.operation(key, *body)), what);
}

void member_order(session &s) { compare(s, with_other_member_order, true, "--body with two members"); }
void white_space(session &s) { compare(s, with_white_space, true, "--body with a JSON object"); }
void number(session &s) { compare(s, with_fraction, true, "--body with an integer"); }
void null_member(session &s) { compare(s, with_null_member, false, "--body with a JSON object"); }
void array_order(session &s) { compare(s, with_other_array_order, false, "--body with an array of two elements"); }

} // namespace

std::vector<test_case> json_cases() {
    return {
        {"json.member-order", "the members in another order", member_order},
        {"json.white-space", "more white space", white_space},
        {"json.number", "1.0 in the place of 1", number},
        {"json.null", "one more member, which is null", null_member},
        {"json.array-order", "the elements of an array in another order", array_order},
    };
}

} // namespace idem::cli::http_test
