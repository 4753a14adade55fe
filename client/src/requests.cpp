#include <idem/requests.hpp>

#include <charconv>

#include "outcome.hpp"

namespace idem {

namespace {

using detail::statement;

constexpr detail::words<4> kOutcomes{"accepted", "replayed", "stale", "invalid"};

// A time from whole microseconds since 1970, which is exact.
#define IDEM_TIME(parameter)                                                                                                   \
    "(timestamptz 'epoch' OPERATOR(pg_catalog.+) (interval '1 us' OPERATOR(pg_catalog.*) " parameter "::pg_catalog.int8))"

constexpr statement verify_statement{"idem_verify_request",
                                     "SELECT @idem@.idem_verify_request($1::pg_catalog.jsonb, $2::pg_catalog.text, "
                                     "$3::pg_catalog.text, " IDEM_TIME("$4") ", $5::pg_catalog.text, $6::pg_catalog.interval)"};
constexpr statement message_statement{
    "idem_request_message",
    "SELECT @idem@.idem_request_message($1::pg_catalog.jsonb, $2::pg_catalog.text, " IDEM_TIME("$3") ", $4::pg_catalog.text)",
    true};
constexpr statement allow_statement{
    "idem_allow", "SELECT allowed, remaining, retry_after_ms FROM "
                  "@idem@.idem_allow($1::pg_catalog.text, $2::pg_catalog.float8, $3::pg_catalog.int4, $4::pg_catalog.int4, "
                  "$5::pg_catalog.text)"};

std::string time_text(const signed_request &request) { return std::to_string(request.signed_at.time_since_epoch().count()); }

// The shortest text that restores the double exactly, in no locale's spelling.
std::string double_text(double value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

} // namespace

const char *name(request_outcome outcome) noexcept { return detail::word_of(kOutcomes, outcome); }

request_outcome verify_request(const target &at, const signed_request &request, duration tolerance) {
    return detail::outcome_of<request_outcome>(
        kOutcomes, detail::call(at, {&verify_statement,
                                     {request.params, request.signature, request.key_id, time_text(request), request.nonce,
                                      detail::interval_text(tolerance)},
                                     {request.key_id, ""}})
                       .at(0)
                       .at(0));
}

std::string request_message(const target &at, const signed_request &request) {
    return detail::call(
               at,
               {&message_statement, {request.params, request.key_id, time_text(request), request.nonce}, {request.key_id, ""}})
        .at(0)
        .at(0)
        .value();
}

admission allow(const target &at, const std::string &name, const rate_limit &limit) {
    const detail::record answer =
        detail::call(at, {&allow_statement,
                          {name, double_text(limit.rate), std::to_string(limit.burst), std::to_string(limit.cost), limit.scope},
                          {name, limit.scope}})
            .at(0);
    admission result{answer.at(0) == "t", static_cast<int>(detail::to_integer(answer.at(1))), std::nullopt};
    if (answer.at(2))
        result.retry_after = std::chrono::milliseconds(detail::to_integer(answer.at(2)));
    return result;
}

} // namespace idem
