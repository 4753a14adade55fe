// HTTP requests under an Idempotency-Key: what to run, what to replay, what to reject (docs/http.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/request.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

/// Names and values, as they are sent; a name may come several times.
using http_headers = std::vector<std::pair<std::string, std::string>>;

struct http_request {
    std::string method; ///< as it came: methods are case-sensitive
    std::string route;  ///< what the request is for: its path with the query, or the name of an operation
    /// The field Idempotency-Key as it came, quoted or bare; nothing: it is missing.
    std::optional<std::string> idempotency_key;
    /// The bytes that came. With method and route they are what the same key must come with again.
    std::string body{};
    /// The space in which the key is unique; each account should have its own.
    std::string scope{};
    /// How long key and response are kept. Nothing: the scope's.
    std::optional<duration> ttl{};
    /// For a request with this key that is being processed, in place of a 409; the default is not to wait.
    patience wait{};
};

struct http_response {
    int status = 200;
    http_headers headers{};
    std::optional<std::string> body{}; ///< JSON text; nothing: none
};

enum class http_action {
    run,    ///< do the work
    replay, ///< it is done: send the response that is stored
    reject  ///< do nothing: send the error
};

/// The word the SQL functions have for it: "replay".
const char *name(http_action action) noexcept;

struct http_answer {
    http_action action;
    /// What to send (not of run): the stored response with Idempotent-Replayed, or a problem as RFC 9457 has it.
    http_response response{};
    /// Of a rejection: key_missing, key_malformed, key_reused, in_flight or in_doubt.
    std::string code{};
    /// Of run under a lease: for http_complete, renew and release.
    std::optional<std::int64_t> fence{};
};

/// Says what to do with a request. One round trip. `lease`: leased mode, for work outside the database. Throws bad_input for
/// what is no method, denied, read_only; never for anything that a key can be.
http_answer http_begin(const target &at, const http_request &request, const std::optional<duration> &lease = {});

/// Stores the response of a request that was to run; of one whose method claims no key, does nothing. Only the headers that the
/// scope stores are kept, never Set-Cookie. One round trip. Throws stale_fence when the key is not held any more; bad_input for
/// a header with a line break, or a body that is no JSON.
void http_complete(const target &at, const http_request &request, const http_response &response,
                   const std::optional<std::int64_t> &fence = {});

namespace detail {

/// Whether a request of this method claims its key: not so GET, HEAD, OPTIONS, TRACE, PUT, DELETE.
bool claims_key(const http_request &request);
command http_begin_step(const http_request &request, const std::optional<duration> &lease, const patience &wait);
http_answer http_answer_of(const rows &answer);
command http_complete_step(const http_request &request, const http_response &response,
                           const std::optional<std::int64_t> &fence);

} // namespace detail

/// Runs `handler(transaction &)`, which returns an http_response, once per key, and returns what is to be sent: the handler's
/// response, the stored one of the first request with that key, or a rejection. The claim, what the handler writes and its
/// response commit together, before anything is sent. When it throws, all of it is rolled back, the key is free again, and the
/// exception goes on to the caller. A response of any status is stored: throw where a repetition should run again.
///
/// The handler may run more than once (a deadlock, a broken connection), but commits once. Two round trips on top of the
/// handler's own, one where it does not run.
///
/// When the reply to COMMIT is lost, the request is begun again on a new connection: what had committed is replayed (with the
/// headers that are stored), else the handler runs again. Of a request whose method claims no key the end cannot be told:
/// outcome_unknown is thrown, as it is when the retries are used up. Otherwise throws as http_begin and http_complete do.
///
///     idem::http_response response = idem::handle_http(db, request, [&](idem::transaction &tx) {
///         tx.exec("INSERT INTO orders …");
///         return idem::http_response{201, {{"Location", "/orders/7"}}, R"({"id": 7})"};
///     });
template <typename F>
http_response handle_http(client &db, const http_request &request, F &&handler, const flow_options &options = {}) {
    return detail::run_flow(
        db, options,
        [&](detail::flow &run) {
            http_answer known =
                detail::http_answer_of(run.begin(detail::http_begin_step(request, std::nullopt, run.wait(request.wait))));
            if (known.action != http_action::run) {
                if (known.code == "in_doubt")
                    run.commit(); // it is written down by whoever is told of it
                else
                    run.cancel();
                return std::move(known.response);
            }
            run.settled(); // so no attempt before this one committed
            http_response fresh = handler(run.tx());
            const auto stored = run.commit({detail::http_complete_step(request, fresh, std::nullopt)});
            fresh.body = stored.at(0).at(0).at(0);
            return fresh;
        },
        detail::claims_key(request));
}

} // namespace idem
