// What the cases share: requests of this server's shape, and the judgement of a repetition.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http_test/http.hpp"
#include "http_test/options.hpp"
#include "http_test/profile.hpp"

namespace idem::cli::http_test {

/// Ends a case. Not derived from std::exception: these are results and not errors.
struct failed {
    std::string expected, seen;
};
struct skipped {
    std::string needs;
};

/// What a repetition may be answered by.
struct allowed {
    bool replay = false, run = false;
    std::optional<refusal> refused = std::nullopt;
};

class session {
  public:
    /// Sends two requests with different keys. Throws exit_error if the server cannot be reached or rejects them.
    explicit session(http_test_options options);

    const http_test_options &options() const { return options_; }
    const profile &rules() const { return profile_; }

    /// A key of the form that the profile has: as the field's value, with its quotation marks.
    static std::string new_key_text();
    std::string new_key() const;

    /// The operation under test, with this key.
    request operation(const std::string &key) const;
    request operation(const std::string &key, std::string body) const;
    response send(const request &what) const;
    response send(const request &what, std::chrono::milliseconds timeout) const;
    /// All at the same time.
    std::vector<response> send_all(const std::vector<request> &all) const;

    /// The first request with a key; the case fails if it does not succeed.
    response succeed(const request &what);

    /// Fails unless `again` is what the case allows after `first`.
    void judge(const response &first, const response &again, const allowed &what) const;
    /// judge(), for a replay and nothing else.
    void expect_replay(const response &first, const response &again) const { judge(first, again, {.replay = true}); }
    void expect_status(const response &seen, const refusal &what) const;
    /// The error's body: its form and code.
    void expect_form(const response &seen, const refusal &what) const;

    /// Two executions give different responses, so that a replay is seen as one.
    bool tells_executions_apart() const { return distinct_; }

    bool counts_effects() const { return !options_.effects.empty(); }
    /// Member `name` of the effects of this key. Fails if there is no such answer.
    int effects(const std::string &key, const char *name = "count") const;
    void expect_effects(const std::string &key, int count, const char *name = "count") const;
    /// By key: the effects that it has to have after all cases.
    const std::map<std::string, int> &expected_effects() const { return expected_; }
    void remember_effects(const std::string &key, int count);
    void expect_only(std::map<std::string, int> effects) { expected_ = std::move(effects); }

    /// Skips the case.
    [[noreturn]] static void need(const std::string &option) { throw skipped{option}; }

  private:
    http_test_options options_;
    const profile &profile_;
    std::string route_;
    std::optional<server> server_;
    fields headers_;
    bool distinct_ = false;
    std::map<std::string, int> expected_;
};

/// "201, {"id":7}", shortened, for people.
std::string shown(const response &seen);

/// The status and the body are the same.
bool same(const response &one, const response &other);

} // namespace idem::cli::http_test
