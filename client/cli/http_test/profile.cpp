#include "http_test/profile.hpp"

#include <algorithm>
#include <iterator>

#include "usage.hpp"

namespace idem::cli::http_test {

namespace {

constexpr profile profiles[] = {
    {.name = "ietf",
     .quoted = true,
     .key_required = true,
     .bounded = false,
     .one_value = true,
     .missing = {400, ""},
     .mismatch = {422, ""},
     .in_flight = {409, ""},
     .requires_retry_after = false,
     .marker = false,
     .echo = false,
     .echo_on_errors = false,
     .bodies = equality::open,
     .routes = other_route::open,
     .client_errors = stored::yes,
     .server_errors = stored::open,
     .form = error_form::problem},
    {.name = "stripe",
     .quoted = false,
     .key_required = false,
     .bounded = true,
     .one_value = false,
     .missing = {},
     .mismatch = {400, "idempotency_error"},
     .in_flight = {409, "idempotency_key_in_use"},
     .requires_retry_after = false,
     .marker = true,
     .echo = true,
     .echo_on_errors = false,
     .bodies = equality::open,
     .routes = other_route::mismatch,
     .client_errors = stored::yes,
     .server_errors = stored::yes,
     .form = error_form::stripe},
    {.name = "acp",
     .quoted = false,
     .key_required = true,
     .bounded = true,
     .one_value = false,
     .missing = {400, "idempotency_key_required"},
     .mismatch = {422, "idempotency_conflict"},
     .in_flight = {409, "idempotency_in_flight"},
     .requires_retry_after = true,
     .marker = true,
     .echo = true,
     .echo_on_errors = true,
     .bodies = equality::json,
     .routes = other_route::independent,
     .client_errors = stored::yes,
     .server_errors = stored::no,
     .form = error_form::flat},
    {.name = "ucp",
     .quoted = false,
     .key_required = true,
     .bounded = false,
     .one_value = true,
     .missing = {0, ""},
     .mismatch = {409, ""},
     .in_flight = {0, ""},
     .requires_retry_after = false,
     .marker = false,
     .echo = false,
     .echo_on_errors = false,
     .bodies = equality::bytes,
     .routes = other_route::independent,
     .client_errors = stored::open,
     .server_errors = stored::open,
     .form = error_form::ucp},
};

// The rules' sources: of ietf, stripe, acp, ucp. An empty one: the protocol has no such rule.
struct rule {
    std::string_view id;
    std::string_view sources[std::size(profiles)];
};

#define DRAFT "draft-ietf-httpapi-idempotency-key-header, section "
#define STRIPE "docs.stripe.com/api/idempotent_requests"
#define LOW_LEVEL "docs.stripe.com/error-low-level"
#define ACP "ACP, rfc.agentic_checkout.md, section "
#define UCP "UCP, signatures.md, Replay Protection"
#define UCP_REST "UCP, checkout/rest.md, HTTP Headers"
#define RFC9110 "RFC 9110, section 5.3: one line of a field that is not a list"

constexpr rule rules[] = {
    {"replay.response", {DRAFT "2.6", STRIPE, ACP "6.3", UCP_REST}},
    {"replay.headers", {DRAFT "2.6", STRIPE, ACP "6.3", UCP_REST}},
    {"replay.marker", {"", LOW_LEVEL, ACP "6.3", ""}},
    {"replay.echo", {"", "stripe-ruby, api_requestor.rb", ACP "3.1", ""}},
    {"replay.new-key", {DRAFT "2.6", STRIPE, ACP "6.1", UCP}},
    {"key.missing", {DRAFT "2.7", STRIPE, ACP "6.1", "UCP, rest.openapi.json"}},
    {"key.empty", {DRAFT "2.1", "", ACP "3.1", UCP}},
    {"key.malformed", {DRAFT "2.1", "", "", ""}},
    {"key.two-lines", {DRAFT "2.1; " RFC9110, "", "", RFC9110}},
    {"key.too-long", {"", STRIPE, "ACP, openapi.agentic_checkout.yaml", ""}},
    {"mismatch.body", {DRAFT "2.7", "docs.stripe.com/api/errors", ACP "6.4", UCP}},
    {"mismatch.form", {DRAFT "2.7", "docs.stripe.com/api/errors", ACP "6.4", "UCP, checkout/rest.md, Error Responses"}},
    {"mismatch.harmless", {DRAFT "2.6", STRIPE, ACP "6.3", UCP_REST}},
    {"mismatch.route", {DRAFT "2.2", "docs.stripe.com/api/errors", ACP "6.1", UCP}},
    {"mismatch.method", {DRAFT "2.2", "docs.stripe.com/api/errors", ACP "6.1", UCP}},
    {"mismatch.client", {DRAFT "5", STRIPE, ACP "6.1", UCP}},
    {"json.member-order", {DRAFT "2.4", STRIPE, ACP "6.2", UCP}},
    {"json.white-space", {DRAFT "2.4", STRIPE, ACP "6.2", UCP}},
    {"json.number", {DRAFT "2.4", STRIPE, ACP "6.2", UCP}},
    {"json.null", {DRAFT "2.4", STRIPE, ACP "6.2", UCP}},
    {"json.array-order", {DRAFT "2.4", STRIPE, ACP "6.2", UCP}},
    {"race.double-click", {DRAFT "2.7", "docs.stripe.com/error-codes", ACP "6.4", UCP}},
    {"race.in-flight", {DRAFT "2.7", "docs.stripe.com/error-codes", ACP "6.4", UCP}},
    {"race.retry-after", {"", "", ACP "6.4", ""}},
    {"race.disconnect", {DRAFT "2.6", LOW_LEVEL, ACP "6.3", "UCP, checkout/index.md, Complete Checkout"}},
    {"error.stored", {DRAFT "2.6", LOW_LEVEL, ACP "6.3 and 6.5", ""}},
    {"error.server", {"", STRIPE, ACP "6.5", ""}},
    {"error.validation", {"", STRIPE, "", ""}},
    {"effects.once", {DRAFT "2.6", STRIPE, ACP "6.3", UCP_REST}},
};

constexpr std::string_view reference = "the reference app, tests/conformance/README.md";

} // namespace

const profile &find_profile(std::string_view name) {
    const auto *found =
        std::find_if(std::begin(profiles), std::end(profiles), [&](const profile &each) { return each.name == name; });
    if (found == std::end(profiles))
        throw usage_error("there is no profile \"" + std::string(name) + "\"; there are ietf, stripe, acp and ucp");
    return *found;
}

std::string_view source_of(const profile &which, std::string_view id) {
    if (id.starts_with("reference."))
        return reference;
    const auto *found = std::find_if(std::begin(rules), std::end(rules), [&](const rule &each) { return each.id == id; });
    return found == std::end(rules) ? std::string_view() : found->sources[&which - profiles];
}

} // namespace idem::cli::http_test
