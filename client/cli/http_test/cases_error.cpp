// Errors: which of them a repetition gets again. And the effects, after all cases.
#include "http_test/cases.hpp"

namespace idem::cli::http_test {

namespace {

/// The first response to a request that the server answers by an error of this class.
response fail(session &s, const request &what, int lowest, const char *option) {
    response first = s.send(what);
    if (first.status < lowest || first.status >= lowest + 100)
        throw failed{std::to_string(lowest / 100) + "xx for " + option, shown(first)};
    return first;
}

void client_error_is_stored(session &s) {
    if (s.options().fail_body.empty())
        session::need("--fail-body");
    const std::string key = s.new_key();
    const request what = s.operation(key, s.options().fail_body);
    const response first = fail(s, what, 400, "--fail-body"), again = s.send(what);
    s.expect_replay(first, again);
    if (s.counts_effects())
        return s.expect_effects(key, 1);
    const response other = s.send(s.operation(s.new_key(), s.options().fail_body));
    if (same(first, other) && !again.header("Idempotent-Replayed"))
        session::need("errors that differ from execution to execution, or --effects");
}

void server_error(session &s) {
    if (s.options().error_body.empty())
        session::need("--error-body");
    const request what = s.operation(s.new_key(), s.options().error_body);
    const response first = fail(s, what, 500, "--error-body"), again = s.send(what);
    if (s.rules().server_errors == stored::yes)
        return s.expect_replay(first, again);
    if (again.header("Idempotent-Replayed").value_or("") == "true" || (s.tells_executions_apart() && same(first, again)))
        throw failed{"an execution of its own", shown(again)};
}

void rejected_parameters_are_not_stored(session &s) {
    if (s.options().invalid_body.empty())
        session::need("--invalid-body");
    const std::string key = s.new_key();
    fail(s, s.operation(key, s.options().invalid_body), 400, "--invalid-body");
    s.succeed(s.operation(key));
}

void one_effect_per_key(session &s) {
    if (!s.counts_effects())
        session::need("--effects");
    for (const auto &[key, count] : s.expected_effects())
        if (const int seen = s.effects(key); seen != count)
            throw failed{std::to_string(count) + " for key " + key, std::to_string(seen)};
}

} // namespace

std::vector<test_case> error_cases() {
    return {
        {"error.stored", "an error of the work is repeated like a success", client_error_is_stored},
        {"error.server", "a server error is repeated, or the work runs again, as the protocol says", server_error},
        {"error.validation", "a request that was rejected before the work leaves its key free",
         rejected_parameters_are_not_stored},
    };
}

std::vector<test_case> effect_cases() {
    return {{"effects.once", "each key has one effect after all cases", one_effect_per_key}};
}

} // namespace idem::cli::http_test
