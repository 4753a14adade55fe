// A key that is used for another request.
#include "http_test/cases.hpp"

namespace idem::cli::http_test {

namespace {

/// The other body's answer, after a request that succeeded.
response reuse(session &s, const std::string &key) {
    if (s.options().other_body.empty())
        session::need("--other-body");
    return s.send(s.operation(key, s.options().other_body));
}

void other_body(session &s) {
    const std::string key = s.new_key();
    s.succeed(s.operation(key));
    s.expect_status(reuse(s, key), s.rules().mismatch);
}

void other_body_form(session &s) {
    const std::string key = s.new_key();
    s.succeed(s.operation(key));
    const response seen = reuse(s, key);
    if (seen.is_success())
        throw failed{"an error", shown(seen)};
    s.expect_form(seen, s.rules().mismatch);
}

void mismatch_keeps_the_response(session &s) {
    const std::string key = s.new_key();
    const response first = s.succeed(s.operation(key));
    reuse(s, key);
    s.expect_replay(first, s.send(s.operation(key)));
}

allowed at_other_route(const profile &rules) {
    switch (rules.routes) {
    case other_route::mismatch:
        return {.refused = rules.mismatch};
    case other_route::independent:
        return {.run = true};
    case other_route::open:
        break;
    }
    return {.run = true, .refused = rules.mismatch};
}

void other_route_is_another_request(session &s) {
    if (s.options().other_route.empty())
        session::need("--other-route");
    const std::string key = s.new_key();
    const response first = s.succeed(s.operation(key));
    request other = s.operation(key);
    other.route = s.options().other_route;
    const response seen = s.send(other);
    s.judge(first, seen, at_other_route(s.rules()));
    s.remember_effects(key, seen.is_success() ? 2 : 1);
}

void other_method_is_another_request(session &s) {
    if (s.options().other_method.empty())
        session::need("--other-method");
    const std::string key = s.new_key();
    const response first = s.succeed(s.operation(key));
    request other = s.operation(key);
    other.method = s.options().other_method;
    const response seen = s.send(other);
    s.judge(first, seen, {.run = true, .refused = refusal{}});
    s.remember_effects(key, seen.is_success() ? 2 : 1);
}

void other_client_gets_nothing(session &s) {
    if (s.options().other_client.empty())
        session::need("--other-client");
    const auto [name, value] = parse_field(s.options().other_client);
    const std::string key = s.new_key();
    const response first = s.succeed(s.operation(key));
    request other = s.operation(key);
    std::erase_if(other.headers, [name = name](const auto &field) { return same_name(field.first, name); });
    other.headers.emplace_back(name, value);
    const response seen = s.send(other);
    allowed what{.run = true};
    if (s.rules().routes == other_route::open)
        what.refused = refusal{};
    s.judge(first, seen, what);
    s.remember_effects(key, seen.is_success() ? 2 : 1);
}

} // namespace

std::vector<test_case> mismatch_cases() {
    return {
        {"mismatch.body", "the same key with another body is rejected", other_body},
        {"mismatch.form", "the rejection has the protocol's form", other_body_form},
        {"mismatch.harmless", "after it the first request still gets its response", mismatch_keeps_the_response},
        {"mismatch.route", "the same key at another route does not get the first response", other_route_is_another_request},
        {"mismatch.method", "the same key with another method does not get the first response",
         other_method_is_another_request},
        {"mismatch.client", "the same key of another client does not get the first response", other_client_gets_nothing},
    };
}

} // namespace idem::cli::http_test
