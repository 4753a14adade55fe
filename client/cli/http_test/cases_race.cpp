// Requests with one key at the same time, and a client that disconnects.
#include <algorithm>
#include <future>
#include <thread>

#include "http_test/cases.hpp"

namespace idem::cli::http_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

response retry(session &s, const request &what, milliseconds limit) {
    const auto end = steady_clock::now() + limit;
    for (;;) {
        response seen = s.send(what);
        const bool is_final =
            seen.status != 0 && seen.status != 409 && seen.status != 425 && seen.status != 429 && seen.status < 500;
        if (is_final || steady_clock::now() > end)
            return seen;
        std::this_thread::sleep_for(milliseconds(100));
    }
}

namespace {

void expect_in_flight(session &s, const response &seen) {
    s.expect_status(seen, s.rules().in_flight);
    s.expect_form(seen, s.rules().in_flight);
}

/// One success, which all others repeat. The rest were rejected as in flight.
void judge_duplicates(session &s, const request &what, const std::vector<response> &answers) {
    const auto success = std::find_if(answers.begin(), answers.end(), [](const response &each) { return each.is_success(); });
    const response final = success != answers.end() ? *success : retry(s, what, s.options().timeout);
    for (const response &each : answers)
        if (each.is_success())
            s.expect_replay(final, each);
        else
            s.expect_status(each, s.rules().in_flight);
    if (success == answers.end())
        throw failed{"a success among the requests", shown(answers.front())};
    s.expect_replay(final, s.send(what));
}

void double_click(session &s) {
    const std::string key = s.new_key();
    const request what = s.operation(key);
    s.remember_effects(key, 1);
    judge_duplicates(s, what, s.send_all(std::vector<request>(static_cast<std::size_t>(s.options().at_once), what)));
    s.expect_effects(key, 1);
}

/// The slow operation, and what a second request gets while it runs.
response during(session &s, const request &slow) {
    auto first = std::async(std::launch::async, [&] { return s.send(slow); });
    std::this_thread::sleep_for(milliseconds(200));
    if (first.wait_for(milliseconds(0)) == std::future_status::ready)
        session::need("--slow-body whose request takes at least half a second");
    response second = s.send(slow);
    const response done = first.get();
    if (!done.is_success())
        throw failed{"a success of --slow-body", shown(done)};
    s.expect_replay(done, second.is_success() ? second : s.send(slow));
    return second;
}

request slow_request(session &s) {
    if (s.options().slow_body.empty())
        session::need("--slow-body");
    const std::string key = s.new_key();
    s.remember_effects(key, 1);
    return s.operation(key, s.options().slow_body);
}

void in_flight(session &s) {
    const response second = during(s, slow_request(s));
    if (!second.is_success())
        expect_in_flight(s, second);
}

void retry_after(session &s) {
    const response second = during(s, slow_request(s));
    if (second.is_success())
        session::need("a server that does not wait for the first request");
    const std::string seconds = second.header("Retry-After").value_or("none");
    if (seconds.empty() || seconds.find_first_not_of("0123456789") != std::string::npos)
        throw failed{"Retry-After in seconds", "Retry-After: " + seconds};
}

void disconnect(session &s) {
    const bool is_slow = !s.options().slow_body.empty();
    const std::string key = s.new_key();
    const request what = s.operation(key, is_slow ? s.options().slow_body : s.options().body);
    s.remember_effects(key, 1);
    s.send(what, milliseconds(is_slow ? 200 : 1));
    const response first = retry(s, what, s.options().timeout);
    if (!first.is_success())
        throw failed{"a success within the time limit", shown(first)};
    s.expect_replay(first, s.send(what));
    s.expect_effects(key, 1);
}

} // namespace

std::vector<test_case> race_cases() {
    return {
        {"race.double-click", "of many requests at once one is executed", double_click},
        {"race.in-flight", "a repetition during the work is rejected, or waits", in_flight},
        {"race.retry-after", "the rejection says when to come again", retry_after},
        {"race.disconnect", "after a client has left, its repetition succeeds", disconnect},
    };
}

} // namespace idem::cli::http_test
