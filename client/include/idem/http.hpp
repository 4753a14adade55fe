// HTTP requests under an Idempotency-Key: what to run, what to replay, what to reject (docs/http.md).
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/request.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

/// Names and values, in the order in which they are sent. A name may occur several times.
using http_headers = std::vector<std::pair<std::string, std::string>>;

struct http_request {
    /// The space in which the key is unique. It names the client and the API, because clients choose their keys; not empty.
    std::string scope;
    std::string method; ///< as received: methods are case-sensitive
    std::string route;  ///< the path with its query, or the name of an operation
    /// The field Idempotency-Key as received, quoted or bare; nothing: it is missing.
    std::optional<std::string> idempotency_key;
    /// The bytes received. Method, route and body are the fingerprint of the key.
    std::string body{};
    /// How long key and response are kept. Nothing: the scope's ttl.
    std::optional<duration> ttl{};
    /// How long to wait while another request with this key is in flight; after that the answer is 409. The default is not to
    /// wait.
    wait_limit wait{};
    /// The caller's own digest in place of route and body, 1 to 255 bytes: of the parts of a multipart form, whose
    /// boundary changes with each attempt. The body is empty then.
    std::optional<std::string> fingerprint{};
    /// The field Content-Type, for scopes that compare JSON.
    std::optional<std::string> content_type{};
};

struct http_response {
    int status = 200;
    http_headers headers{};
    std::optional<std::string> body{}; ///< any bytes; nothing: none
};

enum class http_action {
    run,    ///< do the work
    replay, ///< the work is done: send the stored response
    reject  ///< do nothing: send the error
};

/// As the SQL functions spell it: "replay".
const char *name(http_action action) noexcept;

struct http_answer {
    http_action action;
    /// Replay: the stored response with Idempotent-Replayed. Reject: the error in the scope's error_format. Run: its headers
    /// are to be added to those of the handler's response.
    http_response response{};
    /// Reject: key_missing, key_malformed, mismatch, in_flight or in_doubt. Run: unkeyed when nothing was claimed, as the
    /// request has no key, or has one where it is not used; http_complete then takes the request without a key.
    std::string code{};
    /// Run in leased mode: pass it to http_complete. This client neither renews nor releases such a key; the SQL functions
    /// idem_renew and idem_release do.
    std::optional<std::int64_t> fence{};
    /// Reject: the same request may succeed when it is repeated later.
    bool retryable = false;
};

/// What became of a response.
enum class http_stored {
    stored,
    omitted,  ///< it is over the scope's limit, and only status and headers are stored: commit
    released, ///< leased mode: the scope does not store the status, and the key was released: roll back
    unkeyed   ///< the request has no key
};

/// As the SQL functions spell it: "stored".
const char *name(http_stored stored) noexcept;

/// Decides what to do with a request. One round trip. `lease`: leased mode, for work outside the database. Throws bad_input
/// for an invalid method, denied, read_only. A malformed key is a rejection, not an exception.
http_answer http_begin(const target &at, const http_request &request, const std::optional<duration> &lease = {});

/// Stores the response of a request that ran, to be replayed byte for byte. Only the headers in the scope's list are stored,
/// never Set-Cookie. One round trip. Throws stale_fence when the key is no longer held; response_unstored in transactional mode
/// for a status that the scope does not store; bad_input for a stored header with a line break, or an empty scope.
http_stored http_complete(const target &at, const http_request &request, const http_response &response,
                          const std::optional<std::int64_t> &fence = {});

struct http_options : flow_options {
    /// A response over the scope's limit. `omit`: the work is committed, and a replay has the status and the headers alone.
    /// `rollback`: everything is rolled back, and the response is 500 response_too_large. It costs one more round trip.
    enum class oversize { omit, rollback } over_limit = oversize::omit;
};

/// The response for an exception that handle_http, http_begin or http_complete threw, with a problem+json body. 503 with
/// Retry-After: unavailable, serialization_failure, commit_unknown, lease_lost. 500: rolled_back; internal, for all others,
/// whose reason belongs in a log. Such a response is not stored.
///
///     try {
///         return idem::handle_http(db, request, handler);
///     } catch (const own_error &) { … } catch (...) {
///         return idem::http_error(std::current_exception());
///     }
http_response http_error(const std::exception_ptr &error);

namespace detail {

command http_begin_step(const http_request &request, const std::optional<duration> &lease, const wait_limit &wait);
http_answer http_answer_of(const rows &answer);
command http_complete_step(const http_request &request, bool passes_key, const http_response &response,
                           const std::optional<std::int64_t> &fence);
/// Stores the response and commits. False: it is over the limit, and is not to be omitted.
bool http_commit(flow &run, const command &complete, http_options::oversize over_limit);
http_response http_too_large();

} // namespace detail

/// Runs `handler(transaction &)`, which returns an http_response, once per key. Returns the response to send: the handler's,
/// the stored one of the first request with that key, or a rejection. The claim, the handler's writes and its response commit
/// together, before anything is sent. When the handler throws, everything is rolled back, the key is free again, and the caller
/// receives the exception. The same happens, without an exception, for a response whose status is one of the scope's
/// unstored_statuses: it is returned, and a retry runs the handler again. Every other response is stored.
///
/// The handler may run more than once (a deadlock, a broken connection), but commits once. Two round trips in addition to those
/// of the handler; one where it does not run.
///
/// When the reply to COMMIT is lost, the request begins again on a new connection. A committed response is replayed (with its
/// stored headers); otherwise the handler runs again. outcome_unknown is thrown when the retries are used up, and at once for a
/// request without a key, or whose key is not used. Otherwise throws the same errors as http_begin and http_complete.
///
///     idem::http_response response = idem::handle_http(db, request, [&](idem::transaction &tx) {
///         tx.exec("INSERT INTO orders …");
///         return idem::http_response{201, {{"Location", "/orders/7"}}, R"({"id": 7})"};
///     });
template <typename F>
http_response handle_http(client &db, const http_request &request, const http_options &options, F &&handler) {
    static_assert(std::is_invocable_r_v<http_response, F &, transaction &>,
                  "the handler is called as handler(idem::transaction &), and returns an idem::http_response");
    bool is_keyed = false; // whether a repetition finds out what became of a commit
    return detail::run_flow(
        db, options,
        [&](detail::flow &run) {
            http_answer known =
                detail::http_answer_of(run.begin(detail::http_begin_step(request, std::nullopt, run.wait(request.wait))));
            if (known.action != http_action::run) {
                if (known.code == "in_doubt")
                    run.commit(); // the call that reports in_doubt also records it
                else
                    run.cancel();
                return std::move(known.response);
            }
            run.earlier_attempts_rolled_back();
            is_keyed = known.code != "unkeyed";
            http_response response = handler(run.tx());
            try {
                const auto complete = detail::http_complete_step(request, is_keyed, response, std::nullopt);
                if (!detail::http_commit(run, complete, options.over_limit)) {
                    run.cancel();
                    return detail::http_too_large();
                }
            } catch (const response_unstored &error) {
                if (error.key().empty()) // raised by a deferred trigger at COMMIT, not by the step
                    throw;
                run.cancel();
            }
            response.headers.insert(response.headers.end(), known.response.headers.begin(), known.response.headers.end());
            return response;
        },
        is_keyed);
}
template <typename F> http_response handle_http(client &db, const http_request &request, F &&handler) {
    return handle_http(db, request, http_options{}, std::forward<F>(handler));
}

} // namespace idem
