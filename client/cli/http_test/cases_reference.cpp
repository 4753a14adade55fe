// What only a server with the routes of the reference app shows: tests/conformance/README.md.
#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include <nlohmann/json.hpp>

#include "http_test/cases.hpp"

namespace idem::cli::http_test {

namespace {

using std::chrono::milliseconds;

/// The operation at another route, whose body has one more member.
request at(session &s, const std::string &route, const std::string &key, const char *member = nullptr,
           const nlohmann::ordered_json &value = nullptr) {
    request what = s.operation(key);
    what.route = route;
    if (member != nullptr) {
        auto body = nlohmann::ordered_json::parse(what.body);
        body[member] = value;
        what.body = body.dump();
    }
    return what;
}

response expect(const response &seen, int status) {
    if (seen.status != status)
        throw failed{std::to_string(status), shown(seen)};
    return seen;
}

/// Twice the same status, and nothing of the work is left.
void expect_rollback(session &s, const request &what, const std::string &key, int status) {
    s.remember_effects(key, 0);
    expect(s.send(what), status);
    expect(s.send(what), status);
    s.expect_effects(key, 0);
    s.expect_effects(key, 2, "runs");
}

void thrown_error(session &s) {
    const std::string key = s.new_key();
    expect_rollback(s, at(s, "/orders", key, "throw", 500), key, 500);
}

void thrown_http_error(session &s) {
    const std::string key = s.new_key();
    expect_rollback(s, at(s, "/orders", key, "throw", 402), key, 402);
}

void returned_error(session &s) {
    const std::string key = s.new_key();
    const request what = at(s, "/orders", key, "status", 402);
    s.remember_effects(key, 1);
    s.expect_replay(expect(s.send(what), 402), s.send(what));
    s.expect_effects(key, 1);
    s.expect_effects(key, 1, "runs");
}

void response_of(session &s, int bytes) {
    const std::string key = s.new_key();
    const request what = at(s, "/orders", key, "bytes", bytes);
    s.remember_effects(key, 1);
    const response first = expect(s.send(what), 201);
    if (first.body.size() != static_cast<std::size_t>(bytes))
        throw failed{std::to_string(bytes) + " bytes", std::to_string(first.body.size()) + " bytes"};
    s.expect_replay(first, s.send(what));
    s.expect_effects(key, 1);
}

void response_of_30_kb(session &s) { response_of(s, 30'000); }
void response_of_300_kb(session &s) { response_of(s, 300'000); }

/// Over the limit of what is stored: sent whole, and the work is not repeated, whatever the repetition is answered by.
void response_of_2_mb(session &s) {
    const std::string key = s.new_key();
    const request what = at(s, "/orders", key, "bytes", 2'000'000);
    s.remember_effects(key, 1);
    const response first = expect(s.send(what), 201);
    if (first.body.size() != 2'000'000)
        throw failed{"2000000 bytes", std::to_string(first.body.size()) + " bytes"};
    s.send(what);
    s.expect_effects(key, 1);
    s.expect_effects(key, 1, "runs");
}

void replays_at(session &s, const std::string &route) {
    const std::string key = s.new_key();
    const request what = at(s, route, key);
    s.remember_effects(key, 1);
    s.expect_replay(expect(s.send(what), 201), s.send(what));
    s.expect_effects(key, 1);
    s.expect_effects(key, 1, "runs");
}

void stream(session &s) { replays_at(s, "/stream"); }
void double_mounting(session &s) { replays_at(s, "/double"); }
void leased(session &s) { replays_at(s, "/leased"); }

/// The late effect must not be in another request's transaction, so others run at that moment.
void late_write(session &s) {
    const std::string key = s.new_key();
    s.remember_effects(key, 1);
    expect(s.send(at(s, "/late", key)), 201);
    std::vector<request> others;
    for (int i = 0; i < 3; ++i) {
        const std::string other = s.new_key();
        others.push_back(at(s, "/orders", other, "pause", 600));
        s.remember_effects(other, 1);
    }
    for (const response &each : s.send_all(others))
        expect(each, 201);
    s.expect_effects(key, 1);
}

/// The lease is one second, the work takes three; ten duplicates wait or ask again, and twenty others want connections, of
/// which there are three.
void waiters_and_a_lease(session &s) {
    const std::string key = s.new_key();
    const request work = at(s, "/leased", key, "pause", 3000);
    s.remember_effects(key, 1);
    std::vector<request> all(11, work);
    for (int i = 0; i < 20; ++i) {
        const std::string other = s.new_key();
        all.push_back(at(s, "/orders", other, "pause", 100));
        s.remember_effects(other, 1);
    }
    const std::vector<response> answers = s.send_all(all);
    s.expect_effects(key, 1, "runs");
    s.expect_effects(key, 1);
    for (std::size_t i = 0; i < answers.size(); ++i)
        if (i >= 11)
            expect(answers[i], 201);
        else if (!answers[i].is_success())
            s.expect_status(answers[i], s.rules().in_flight);
}

/// A hook that the app does not have answers 404.
void press(session &s, const char *hook) {
    request what{"POST", hook, "", {}};
    const response seen = s.send(what);
    if (seen.status == 404)
        session::need(std::string("a reference app with POST ") + hook);
}

/// While the work runs, `disturb`; then the same request succeeds, and its work is done once.
template <typename Disturb> void survive(session &s, const char *route, milliseconds limit, Disturb disturb) {
    const std::string key = s.new_key();
    const request what = at(s, route, key, "pause", 1500);
    s.remember_effects(key, 1);
    auto first = std::async(std::launch::async, [&] { return s.send(what); });
    std::this_thread::sleep_for(milliseconds(300));
    disturb();
    const response broken = first.get();
    const response again = retry(s, what, limit);
    expect(again, 201);
    if (broken.is_success() && !same(broken, again))
        throw failed{"an error, or the response that is stored", shown(broken)};
    s.expect_replay(again, s.send(what));
    s.expect_effects(key, 1);
}

void lost_sessions(session &s) {
    survive(s, "/orders", milliseconds(10'000), [&] { press(s, "/hooks/disconnect"); });
}

/// The COMMIT succeeds and its answer is lost: the client is told of the success, or to repeat, and the work is done once.
void lost_commit(session &s) {
    press(s, "/hooks/lose-commit");
    const std::string key = s.new_key();
    const request what = at(s, "/orders", key);
    s.remember_effects(key, 1);
    const response first = s.send(what);
    if (!first.is_success() && first.status != 0 && first.status != 503)
        throw failed{"a success, or 503", shown(first)};
    const response again = expect(retry(s, what, milliseconds(10'000)), 201);
    if (first.is_success())
        s.expect_replay(first, again);
    s.expect_replay(again, s.send(what));
    s.expect_effects(key, 1);
    s.expect_effects(key, 1, "runs");
}

void kill_and_restart(session &s) {
    press(s, "/hooks/kill");
    if (std::system(s.options().restart.c_str()) != 0) // NOLINT: the user's own command
        throw failed{"--restart starts the server", "a failure"};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (s.send({"GET", "/effects?key=none", "", {}}).status == 0) {
        if (std::chrono::steady_clock::now() > end)
            throw failed{"a server that answers within 60 s of --restart", "no answer"};
        std::this_thread::sleep_for(milliseconds(100));
    }
}

void killed(session &s, const char *route, milliseconds limit) {
    if (s.options().restart.empty())
        session::need("--restart");
    survive(s, route, limit, [&] { kill_and_restart(s); });
}

void killed_in_a_transaction(session &s) { killed(s, "/orders", milliseconds(10'000)); }
void killed_under_a_lease(session &s) { killed(s, "/leased", milliseconds(15'000)); }

} // namespace

std::vector<test_case> reference_cases() {
    return {
        {"reference.returned-402", "an error that is returned is stored", returned_error},
        {"reference.thrown-error", "an error that is thrown rolls back, and the work runs again", thrown_error},
        {"reference.thrown-402", "a thrown HTTP error rolls back as well", thrown_http_error},
        {"reference.30-kb", "a response of 30 kB is replayed", response_of_30_kb},
        {"reference.300-kb", "a response of 300 kB is replayed", response_of_300_kb},
        {"reference.2-mb", "a response of 2 MB is sent whole, and its work is not repeated", response_of_2_mb},
        {"reference.stream", "a response in parts is replayed", stream},
        {"reference.double-mounting", "two middlewares on one route are one", double_mounting},
        {"reference.late-write", "a write after the response is in no other request's transaction", late_write},
        {"reference.leased", "leased work runs once", leased},
        {"reference.pool", "waiters do not take the connections that a lease needs", waiters_and_a_lease},
        {"reference.lost-sessions", "the database ends the sessions in the middle of the work", lost_sessions},
        {"reference.lost-commit", "the answer to COMMIT is lost", lost_commit},
        {"reference.killed", "the server dies in the middle of the work", killed_in_a_transaction},
        {"reference.expired-lease", "the server dies, and the lease expires", killed_under_a_lease},
    };
}

} // namespace idem::cli::http_test
