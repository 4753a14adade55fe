// Work that happens once per key, in one transaction.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/keys.hpp>
#include <idem/request.hpp>
#include <idem/response.hpp>
#include <idem/transact.hpp>

namespace idem {

using once_options = flow_options;

/// What try_once returns.
struct once_result {
    /// acquired, taken_over: this call did the work. completed: another call did it before. in_flight, mismatch, in_doubt: the
    /// work did not run.
    key_outcome outcome;
    /// The answer of the work that is done; nothing: the work did not run.
    std::optional<idem::answer> answer{};
    /// in_flight: the rest of the holder's lease; nothing: unknown, or the holder has none (its transaction is open).
    std::optional<duration> retry_after{};

    /// Whether the work is done, by this call or before.
    explicit operator bool() const noexcept { return answer.has_value(); }
};

namespace detail {

/// The part of `once` that does not depend on the callable.
class once_flow {
  public:
    once_flow(client &db, const request &about, const once_options &options);

    /// Claims the key. Returns nothing when tx() is open for the work.
    std::optional<once_result> try_begin();
    /// The same for the stored answer: throws for all other outcomes.
    std::optional<answer> begin();
    /// After the work: acquired or taken_over.
    key_outcome claimed() const noexcept { return claimed_; }
    transaction &tx() { return flow_.tx(); }
    /// Stores the response and commits.
    answer complete(const response &outcome);
    /// Commits; the key is completed without a response.
    void commit() { flow_.commit(); }
    /// Rolls back. Returns when the attempt is to be repeated, else throws.
    void failed(const std::exception_ptr &error) { flow_.failed(error, true); }

  private:
    const request &request_;
    flow flow_;
    std::string owner_;
    key_outcome claimed_ = key_outcome::acquired; // these two are from the key's ticket
    int attempt_ = 1;
};

template <typename F, typename... Arguments> response respond(F &work, Arguments &...arguments) {
    using result = std::invoke_result_t<F &, Arguments &...>;
    if constexpr (std::is_void_v<result>) {
        work(arguments...);
        return {};
    } else {
        return response_from<std::decay_t<result>>::make(work(arguments...));
    }
}

} // namespace detail

/// Runs `work(transaction &)` once per key, and returns the same answer to every call with that key while the key is kept. The
/// claim, the work's writes and its response commit together. When the work throws, everything is rolled back, the key is free
/// again, and the caller receives the exception.
///
/// `work` returns a response, JSON text, a type that idem/nlohmann.hpp converts, or nothing. It may run more than once (a
/// deadlock, a broken connection), but commits once: effects outside the database belong in `leased`.
///
/// Two round trips in addition to those of the work: BEGIN is sent with the claim, COMMIT with the response. A duplicate costs
/// one. Work that is a single statement costs one in all: see `once_statement`.
///
/// When the reply to COMMIT is lost, the key is looked up on a new connection by this call's owner. If it is found, this call
/// committed, and the answer is not a replay. If there is no key, the work runs again.
///
/// Throws mismatch (ID002), in_flight and in_doubt (ID005), bad_input, denied, read_only, outcome_unknown when the retries are
/// used up while the outcome of a commit is unknown, and everything that `work` throws.
///
///     idem::answer paid = idem::once(db, idem::request{"pay-7f3a"}.of_json(body), [&](idem::transaction &tx) {
///         tx.exec("INSERT INTO payment …");
///         return idem::response{201, R"({"status": "paid"})"};
///     });
template <typename F> answer once(client &db, const request &about, const once_options &options, F &&work) {
    static_assert(detail::is_work<F>, "work is called as work(idem::transaction &)");
    detail::once_flow flow{db, about, options};
    for (;;) {
        try {
            if (std::optional<answer> known = flow.begin())
                return *std::move(known);
            return flow.complete(detail::respond(work, flow.tx()));
        } catch (...) {
            flow.failed(std::current_exception());
        }
    }
}
template <typename F> answer once(client &db, const request &about, F &&work) {
    return once(db, about, once_options{}, std::forward<F>(work));
}

/// The same, but returns in_flight, mismatch and in_doubt as outcomes, for callers that do not treat them as errors. The work
/// does not run then. Throws all other errors of `once`, and everything that `work` throws.
///
///     const idem::once_result paid = idem::try_once(db, about, [&](idem::transaction &tx) { … });
///     if (paid.outcome == idem::key_outcome::in_flight)
///         return reply(409, paid.retry_after);
template <typename F> once_result try_once(client &db, const request &about, const once_options &options, F &&work) {
    static_assert(detail::is_work<F>, "work is called as work(idem::transaction &)");
    detail::once_flow flow{db, about, options};
    for (;;) {
        try {
            if (std::optional<once_result> known = flow.try_begin())
                return *std::move(known);
            answer done = flow.complete(detail::respond(work, flow.tx()));
            return {flow.claimed(), std::move(done)};
        } catch (...) {
            flow.failed(std::current_exception());
        }
    }
}
template <typename F> once_result try_once(client &db, const request &about, F &&work) {
    return try_once(db, about, once_options{}, std::forward<F>(work));
}

/// The same as `once` for work that is one SQL statement with parameters $1, $2 …: one round trip in all. Its rows, as a JSON
/// array of objects, are the response. A `wait` polls every 20 ms. After a lost reply the answer may say `replayed` although
/// this call did the work.
answer once_statement(client &db, const request &about, const std::string &statement,
                      const std::vector<std::optional<std::string>> &args = {}, const once_options &options = {});

} // namespace idem
