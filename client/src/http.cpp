#include <idem/http.hpp>

#include <algorithm>
#include <cstring>

#include "http_text.hpp"
#include "outcome.hpp"

namespace idem {

namespace {

using detail::parameter;
using detail::record;
using detail::rows;
using detail::statement;

constexpr detail::words<3> kActions{"run", "replay", "reject"};
constexpr detail::words<4> kStored{"stored", "omitted", "released", "unkeyed"};

// Headers as lines "name:value": the name has no colon, the value no line break.
constexpr statement begin_statement{
    "idem_http_begin",
    "SELECT action, status, pg_catalog.encode(body_bytes, 'hex'), fence, code, retryable, "
    "CASE WHEN headers IS NOT NULL THEN (SELECT pg_catalog.string_agg(pg_catalog.concat(h.key, ':', "
    "pg_catalog.translate(v, pg_catalog.concat(pg_catalog.chr(10), pg_catalog.chr(13)), '')), pg_catalog.chr(10)) "
    "FROM pg_catalog.jsonb_each(headers) h, pg_catalog.jsonb_array_elements_text(CASE pg_catalog.jsonb_typeof(h.value) "
    "WHEN 'array' THEN h.value ELSE pg_catalog.jsonb_build_array(h.value) END) v) END "
    "FROM @idem@.idem_http_begin($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text, NULL, "
    "$5::pg_catalog.bytea, $6::pg_catalog.interval, $7::pg_catalog.interval, $8::pg_catalog.interval, $9::pg_catalog.bytea, "
    "$10::pg_catalog.text)"};

constexpr statement complete_statement{
    "idem_http_complete",
    "SELECT @idem@.idem_http_complete($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int4, $4::pg_catalog.jsonb, "
    "NULL, $5::pg_catalog.bytea, $6::pg_catalog.int8)",
    true}; // equal response, same fence: a no-op

// `hex`: as encode() writes it.
std::string bytes_of(const std::string &hex) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string bytes(hex.size() / 2, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<char>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return bytes;
}

http_headers headers_of(const std::string &lines) {
    http_headers headers;
    for (std::size_t begin = 0; begin < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', begin), lines.size()), colon = lines.find(':', begin);
        headers.emplace_back(lines.substr(begin, colon - begin), lines.substr(colon + 1, end - colon - 1));
        begin = end + 1;
    }
    return headers;
}

subject about(const http_request &request) { return {request.idempotency_key.value_or(""), request.scope}; }

} // namespace

const char *name(http_action action) noexcept { return detail::word_of(kActions, action); }
const char *name(http_stored stored) noexcept { return detail::word_of(kStored, stored); }

namespace detail {

command http_begin_step(const http_request &request, const std::optional<duration> &lease, const wait_limit &wait) {
    parameter key = request.idempotency_key, content_type = request.content_type, body, fingerprint;
    if (key)
        key = printable(*std::move(key));
    if (content_type)
        content_type = printable(*std::move(content_type));
    if (request.fingerprint)
        fingerprint = bytea_text(*request.fingerprint);
    if (!fingerprint || !request.body.empty())
        body = bytea_text(request.body);
    return {&begin_statement,
            {request.scope, request.method, request.route, std::move(key), std::move(body), interval_text(lease),
             wait_text(wait), interval_text(request.ttl), std::move(fingerprint), std::move(content_type)},
            about(request)};
}

http_answer http_answer_of(const rows &answer) {
    const record &columns = answer.at(0);
    http_answer known{outcome_of<http_action>(kActions, columns.at(0))};
    if (columns.at(1))
        known.response.status = static_cast<int>(to_integer(columns[1]));
    if (columns.at(2))
        known.response.body = bytes_of(*columns[2]);
    if (columns.at(3))
        known.fence = to_integer(columns[3]);
    known.code = columns.at(4).value_or("");
    known.retryable = columns.at(5) == "t";
    known.response.headers = headers_of(columns.at(6).value_or(""));
    return known;
}

command http_complete_step(const http_request &request, bool passes_key, const http_response &response,
                           const std::optional<std::int64_t> &fence) {
    parameter key, held, body;
    if (passes_key)
        key = request.idempotency_key;
    if (fence)
        held = std::to_string(*fence);
    if (response.body)
        body = bytea_text(*response.body);
    return {&complete_statement,
            {request.scope, std::move(key), std::to_string(response.status), json_of(response.headers), body, held},
            about(request)};
}

bool http_commit(flow &run, const command &complete, http_options::oversize over_limit) {
    if (over_limit == http_options::oversize::omit) {
        run.commit({complete});
        return true;
    }
    if (outcome_of<http_stored>(kStored, call(run.tx(), complete).at(0).at(0)) == http_stored::omitted)
        return false;
    run.commit();
    return true;
}

} // namespace detail

http_answer http_begin(const target &at, const http_request &request, const std::optional<duration> &lease) {
    return detail::http_answer_of(detail::call(at, detail::http_begin_step(request, lease, request.wait)));
}

http_stored http_complete(const target &at, const http_request &request, const http_response &response,
                          const std::optional<std::int64_t> &fence) {
    const rows answer = detail::call(at, detail::http_complete_step(request, true, response, fence));
    return detail::outcome_of<http_stored>(kStored, answer.at(0).at(0));
}

} // namespace idem
