// A repetition gets the response of the first request.
#include "http_test/cases.hpp"

namespace idem::cli::http_test {

namespace {

void response_is_replayed(session &s) {
    const request what = s.operation(s.new_key());
    const response first = s.succeed(what);
    for (int repetition = 0; repetition < 3; ++repetition)
        s.expect_replay(first, s.send(what));
}

void headers_are_replayed(session &s) {
    const request what = s.operation(s.new_key());
    const response first = s.succeed(what), again = s.send(what);
    for (const char *name : {"Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Location", "ETag",
                             "Last-Modified", "PAYMENT-RESPONSE"}) {
        const std::string expected = first.header(name).value_or("none"), seen = again.header(name).value_or("none");
        if (seen != expected)
            throw failed{std::string(name) + ": " + expected, std::string(name) + ": " + seen};
    }
}

void marker_is_on_replays(session &s) {
    const request what = s.operation(s.new_key());
    const response first = s.succeed(what), again = s.send(what);
    const auto of = [](const response &each) { return each.header("Idempotent-Replayed").value_or("none"); };
    if (of(first) == "true")
        throw failed{"no Idempotent-Replayed on the first response", "Idempotent-Replayed: true"};
    if (of(again) != "true")
        throw failed{"Idempotent-Replayed: true on the repetition", "Idempotent-Replayed: " + of(again)};
}

void expect_echo(const response &seen, const std::string &key, const char *where) {
    const std::string echo = seen.header("Idempotency-Key").value_or("none");
    if (echo != key)
        throw failed{"Idempotency-Key: " + key + " on " + where, "Idempotency-Key: " + echo};
}

void key_is_echoed(session &s) {
    const std::string key = s.new_key();
    const request what = s.operation(key);
    expect_echo(s.succeed(what), key, "the first response");
    expect_echo(s.send(what), key, "the repetition");
    if (s.rules().echo_on_errors && !s.options().other_body.empty())
        expect_echo(s.send(s.operation(key, s.options().other_body)), key, "the mismatch");
}

void another_key_runs(session &s) {
    const response first = s.succeed(s.operation(s.new_key()));
    const request other = s.operation(s.new_key());
    s.judge(first, s.succeed(other), {.run = true});
}

} // namespace

std::vector<test_case> replay_cases() {
    return {
        {"replay.response", "a repetition gets the first status and body, byte for byte", response_is_replayed},
        {"replay.headers", "a repetition gets the header fields that describe the body", headers_are_replayed},
        {"replay.marker", "a replay is marked, and a first response is not", marker_is_on_replays},
        {"replay.echo", "the response has the key", key_is_echoed},
        {"replay.new-key", "the same request with another key is executed", another_key_runs},
    };
}

} // namespace idem::cli::http_test
