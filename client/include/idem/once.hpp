// Work that happens once per key: the unique-constraint flow, in one transaction.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/request.hpp>
#include <idem/response.hpp>
#include <idem/transact.hpp>

namespace idem {

using once_options = flow_options;

namespace detail {

/// The part of `once` that does not depend on the callable.
class once_flow {
  public:
    once_flow(client &db, const request &about, const once_options &options);

    /// Claims the key. An answer: there is nothing to do. Nothing: tx() is open, and the work is to be done in it.
    std::optional<answer> begin();
    transaction &tx() { return flow_.tx(); }
    /// Stores the response and commits.
    answer complete(response outcome);
    /// Commits; the key is completed without a response.
    void commit() { flow_.commit(); }
    /// Rolls back; returns when the work is to be tried again, else throws what is to be thrown.
    void failed(const std::exception_ptr &error) { flow_.failed(error, true); }

  private:
    const request &request_;
    flow flow_;
    std::string owner_;
    int attempt_ = 1; // of the key, as the server counts
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

/// Runs `work(transaction &)` once per key, and answers the same to everybody who comes with that key while it is kept. The
/// claim, what the work writes and the response it returns commit together; when it throws, all of it is rolled back, the key
/// is free again, and the exception goes on to the caller.
///
/// `work` returns a response, JSON text, something that idem/nlohmann.hpp makes one of, or nothing. It may run more than once
/// (a deadlock, a broken connection), but commits once: effects outside the database belong into `leased`.
///
/// Two round trips on top of what the work itself sends: BEGIN goes with the claim, COMMIT with the response. A duplicate costs
/// one. Work that is a single statement costs one altogether: see `once_statement`.
///
/// When the reply to COMMIT is lost, the key is looked up on a new connection, by the nonce of this call: committed means this
/// answer and not a replay, absent means that the work runs again.
///
/// Throws mismatch (ID002), in_flight and in_doubt (ID005), bad_input, denied, read_only, outcome_unknown when the retries are
/// used up while it is not known how the commit ended, and everything that `work` throws.
///
///     idem::answer paid = idem::once(db, idem::request{"pay-7f3a"}.of_json(body), [&](idem::transaction &tx) {
///         tx.exec("INSERT INTO payment …");
///         return idem::response{201, R"({"status": "paid"})"};
///     });
template <typename F> answer once(client &db, const request &about, F &&work, const once_options &options = {}) {
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

/// The same for work that is one SQL statement with parameters $1, $2 …: one round trip altogether. Its rows, as a JSON array
/// of objects, are the response. A `wait` asks again every 20 ms. After a lost reply the answer says `replayed` although the
/// work may have been this call's.
answer once_statement(client &db, const request &about, const std::string &statement,
                      const std::vector<std::optional<std::string>> &arguments = {}, const once_options &options = {});

} // namespace idem
