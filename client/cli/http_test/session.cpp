#include "http_test/session.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <future>
#include <latch>
#include <random>

#include <nlohmann/json.hpp>

#include "exit_code.hpp"
#include "http_test/vary.hpp"
#include "table.hpp"
#include "usage.hpp"

namespace idem::cli::http_test {

namespace {

using json = nlohmann::ordered_json;

constexpr const char *kReferenceBody = R"({"item":"apples","amount":1,"tags":["a","b"]})";

/// A body of the reference app with one more member.
std::string reference_body(const char *member, const json &value) {
    json body = json::parse(kReferenceBody);
    body[member] = value;
    return body.dump();
}

void set_default(std::string &option, const std::string &value) {
    if (option.empty())
        option = value;
}

http_test_options completed(http_test_options given) {
    if (given.reference) {
        set_default(given.route, "/orders");
        set_default(given.other_route, "/other");
        set_default(given.other_method, "PUT");
        set_default(given.body, kReferenceBody);
        set_default(given.slow_body, reference_body("pause", 1000));
        set_default(given.fail_body, reference_body("status", 402));
        set_default(given.error_body, reference_body("status", 503));
        set_default(given.effects, "/effects?key={key}");
        set_default(given.other_client, "Authorization: Bearer other");
        if (given.headers.empty())
            given.headers = {"Authorization: Bearer first"};
    }
    set_default(given.body, "{}");
    set_default(given.other_body, changed(given.body));
    return given;
}

std::string without_quotes(const std::string &key) {
    return key.size() >= 2 && key.front() == '"' ? key.substr(1, key.size() - 2) : key;
}

std::string status_text(const refusal &what) { return what.status == 0 ? "an error status" : std::to_string(what.status); }

bool fits(const response &seen, const refusal &what) {
    return what.status == 0 ? seen.status >= 400 && seen.status < 600 && seen.status != 500 : seen.status == what.status;
}

std::string text_of(const allowed &what) {
    std::vector<std::string> parts;
    if (what.replay)
        parts.emplace_back("the first response");
    if (what.run)
        parts.emplace_back("an execution of its own");
    if (what.refused)
        parts.push_back(status_text(*what.refused));
    std::string text;
    for (const std::string &part : parts)
        text += (text.empty() ? "" : ", or ") + part;
    return text;
}

bool marked(const response &seen) { return seen.header("Idempotent-Replayed").value_or("") == "true"; }

/// The text at a member of an error's body, empty if there is none.
std::string member(const json &body, const char *name) {
    return body.is_object() && body.contains(name) && body[name].is_string() ? body[name].get<std::string>() : "";
}

} // namespace

std::string shown(const response &seen) {
    std::string text = seen.status == 0 ? "" : std::to_string(seen.status) + (seen.body.empty() ? ", empty" : ", ");
    std::size_t length = std::min<std::size_t>(120, seen.body.size());
    while (length > 0 && length < seen.body.size() && (seen.body[length] & 0xC0) == 0x80) // inside a character of UTF-8
        --length;
    text += printable(seen.body.substr(0, length)) + (length < seen.body.size() ? "…" : "");
    return marked(seen) ? text + ", Idempotent-Replayed" : text;
}

bool same(const response &one, const response &other) { return one.status == other.status && one.body == other.body; }

session::session(http_test_options options)
    : options_(completed(std::move(options))), profile_(find_profile(options_.profile)) {
    auto [origin, path] = split_url(options_.url);
    route_ = options_.route.empty() ? path : options_.route;
    server_.emplace(origin);
    for (const std::string &line : options_.headers)
        headers_.push_back(parse_field(line));
    if (!options_.other_client.empty())
        parse_field(options_.other_client);
    const std::string key = new_key(), other = new_key();
    const response first = send(operation(key));
    if (first.status == 0)
        throw exit_error(kNotTested, origin + ": " + first.body);
    const response second = send(operation(other));
    for (const response &each : {first, second})
        if (!each.is_success())
            throw exit_error(kNotTested, options_.method + " " + route_ + " with a new key is answered by " + shown(each) +
                                             "; --route, --body, --content-type and --header describe a request that succeeds");
    remember_effects(key, 1);
    remember_effects(other, 1);
    distinct_ = !same(first, second) || first.header("Location") != second.header("Location");
}

std::string session::new_key_text() {
    static std::random_device device;
    std::uint32_t words[4];
    for (std::uint32_t &word : words)
        word = device();
    char text[37];
    std::snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%04x%08x", words[0], words[1] >> 16, words[1] & 0xFFF,
                  (words[2] >> 16 & 0x3FFF) | 0x8000, words[2] & 0xFFFF, words[3]);
    return text;
}

std::string session::new_key() const {
    const std::string text = new_key_text();
    return profile_.quoted ? '"' + text + '"' : text;
}

request session::operation(const std::string &key) const { return operation(key, options_.body); }

request session::operation(const std::string &key, std::string body) const {
    request made{options_.method, route_, std::move(body), headers_};
    if (!options_.content_type.empty())
        made.headers.emplace_back("Content-Type", options_.content_type);
    made.headers.emplace_back("Idempotency-Key", key);
    return made;
}

response session::send(const request &what) const { return server_->send(what, options_.timeout); }

response session::send(const request &what, std::chrono::milliseconds timeout) const { return server_->send(what, timeout); }

std::vector<response> session::send_all(const std::vector<request> &all) const {
    std::latch start(static_cast<std::ptrdiff_t>(all.size()));
    std::vector<std::future<response>> pending;
    for (const request &each : all)
        pending.push_back(std::async(std::launch::async, [this, &start, &each] {
            start.arrive_and_wait();
            return send(each);
        }));
    std::vector<response> answers;
    for (std::future<response> &each : pending)
        answers.push_back(each.get());
    return answers;
}

response session::succeed(const request &what) {
    response first = send(what);
    if (!first.is_success())
        throw failed{"a success for a new key", shown(first)};
    for (const auto &[name, value] : what.headers)
        if (name == "Idempotency-Key")
            remember_effects(value, 1);
    return first;
}

void session::judge(const response &first, const response &again, const allowed &what) const {
    const bool is_first = same(first, again);
    bool right = false;
    if (is_first && what.replay && what.run)
        right = true;
    else if (is_first && (distinct_ || marked(again) || counts_effects())) // the effects are counted at the end
        right = what.replay;
    else if (is_first)
        need("responses that differ from execution to execution (an id), or --effects");
    else if (again.is_success())
        right = what.run && !marked(again);
    else
        right = what.refused && again.status != 0 && fits(again, *what.refused);
    if (!right)
        throw failed{text_of(what), shown(again)};
}

void session::expect_status(const response &seen, const refusal &what) const {
    if (seen.status == 0 || !fits(seen, what))
        throw failed{status_text(what), shown(seen)};
}

void session::expect_form(const response &seen, const refusal &what) const {
    const json body = json::parse(seen.body, nullptr, false);
    const std::string code(what.code), type = seen.header("Content-Type").value_or("");
    const auto require = [&](bool right, const std::string &expected) {
        if (!right)
            throw failed{expected, shown(seen) + " (" + type + ")"};
    };
    switch (profile_.form) {
    case error_form::problem:
        require((type.starts_with("application/problem+json") && body.is_object()) ||
                    seen.header("Link").value_or("").find("describedby") != std::string::npos,
                "an application/problem+json, or a Link with rel=\"describedby\"");
        break;
    case error_form::stripe: {
        const json error = body.is_object() && body.contains("error") ? body["error"] : json();
        require(member(error, "type") == code || member(error, "code") == code,
                R"({"error": {"type": …, "message": …}} with ")" + code + '"');
        break;
    }
    case error_form::flat:
        require(member(body, "code") == code && !member(body, "type").empty() && !member(body, "message").empty(),
                R"({"type": …, "code": ")" + code + R"(", "message": …})");
        break;
    case error_form::ucp:
        require(!member(body, "code").empty() && !member(body, "content").empty(), R"({"code": …, "content": …})");
        break;
    }
}

int session::effects(const std::string &key, const char *name) const {
    std::string path = options_.effects;
    const std::size_t at = path.find("{key}");
    if (at != std::string::npos)
        path.replace(at, 5, without_quotes(key));
    const response answer = send({"GET", path, "", headers_});
    const json body = json::parse(answer.body, nullptr, false);
    if (!answer.is_success() || !body.is_object() || !body.contains(name) || !body[name].is_number_integer())
        throw failed{"GET " + path + R"( with {")" + name + R"(": N})", shown(answer)};
    return body[name].get<int>();
}

void session::expect_effects(const std::string &key, int count, const char *name) const {
    if (!counts_effects())
        return;
    const int seen = effects(key, name);
    if (seen != count)
        throw failed{std::string(name) + " of the effects: " + std::to_string(count), std::to_string(seen)};
}

void session::remember_effects(const std::string &key, int count) { expected_[key] = count; }

} // namespace idem::cli::http_test
