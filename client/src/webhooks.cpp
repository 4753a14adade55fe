#include <idem/webhooks.hpp>

#include "http_text.hpp"
#include "outcome.hpp"

namespace idem {

namespace {

constexpr detail::words<4> kOutcomes{"accepted", "duplicate", "stale", "invalid"};

constexpr detail::statement receive_statement{
    "idem_webhook_receive",
    "SELECT outcome, message_id FROM @idem@.idem_webhook_receive($1::pg_catalog.text, $2::pg_catalog.jsonb, "
    "$3::pg_catalog.bytea)"};

// No format has another byte in its fields.
http_headers printable(const http_headers &headers) {
    http_headers fields;
    for (const auto &[name, value] : headers)
        fields.emplace_back(detail::printable(name), detail::printable(value));
    return fields;
}

} // namespace

const char *name(webhook_outcome outcome) noexcept { return detail::word_of(kOutcomes, outcome); }

webhook_answer receive_webhook(const target &at, const webhook &received) {
    const detail::record answer =
        detail::call(at, {&receive_statement,
                          {received.source, detail::json_of(printable(received.headers)), detail::bytea_text(received.body)},
                          {received.source, "webhook"}})
            .at(0);
    return {detail::outcome_of<webhook_outcome>(kOutcomes, answer.at(0)), answer.at(1).value_or("")};
}

} // namespace idem
