// Whatever a request has in it: what is read from it lies within it, and a signature that is added to the others is found.
#include "core/webhook.hpp"

#include "fuzz.hpp"

#include <vector>

namespace {

using namespace idem::core;

bool is_within(std::string_view part, std::string_view whole) {
    return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

} // namespace

FUZZ_TARGET(input) {
    constexpr std::string_view kNames[] = {"standard", "stripe", "github", "slack", "shopify"};
    const WebhookFormat &format = *webhook_format(kNames[input.below(std::size(kNames))]);
    const WebhookFields fields{input.until('|'), input.until('|'), input.until('|')};
    Webhook webhook;
    if (read_webhook(format, fields, &webhook)) {
        REQUIRE(is_within(webhook.id, fields.id) && webhook.id.size() <= kMaxWebhookIdBytes);
        REQUIRE(is_within(webhook.time, fields.time) || is_within(webhook.time, fields.signature));
        REQUIRE(!format.is_timed || (webhook.seconds >= 0 && !webhook.time.empty()));
        REQUIRE(signed_before_body(format, webhook).size() <= kMaxWebhookIdBytes + 20);
    }
    Mac unlikely{};
    unlikely[0] = 4;
    (void)has_signature(format, webhook, unlikely);
    const std::string digits =
        format.read_mac == read_hex_mac ? "04" + std::string(62, '0') : "BA" + std::string(41, 'A') + "=";
    const std::string more = std::string(fields.signature) + format.separator + std::string(format.signature_prefix) + digits;
    Webhook with_more = webhook;
    with_more.signatures = more;
    REQUIRE(has_signature(format, with_more, unlikely));

    const std::string_view body = input.rest();
    const std::string_view id = id_in_body(format, body);
    REQUIRE(is_within(id, body) && id.size() <= kMaxWebhookIdBytes);
    std::vector<std::uint8_t> key(body.size());
    if (const auto size = webhook_key(format, body, key.data()))
        REQUIRE(*size <= body.size());
}
