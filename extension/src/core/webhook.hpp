// Webhooks: what a sender puts into headers and body, what it signs, and what names a delivery.
//
// All formats sign with HMAC-SHA256:
//   standard  webhook-signature: v1,<base64> ...     of webhook-id "." webhook-timestamp "." body (standardwebhooks.com)
//   stripe    Stripe-Signature: t=<time>,v1=<hex>...  of time "." body
//   github    X-Hub-Signature-256: sha256=<hex>       of the body
//   slack     X-Slack-Signature: v0=<hex>             of "v0:" X-Slack-Request-Timestamp ":" body
//   shopify   X-Shopify-Hmac-Sha256: <base64>         of the body
//
// A request is written by anybody. Nothing in it makes these functions fail, allocate without bound, or read outside their
// input.
#pragma once

#include "core/mac.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idem::core {

enum class WebhookSender { standard, stripe, github, slack, shopify };

// Names of header fields are in lower case. An empty name: the sender has no such field.
struct WebhookFormat {
    WebhookSender sender;
    std::string_view name;
    std::string_view id_field;
    std::string_view id_member; // of the JSON object in the body
    std::string_view time_field;
    std::string_view signature_field;
    std::string_view signature_prefix;
    char separator; // between the signatures in the field
    bool (*read_mac)(std::string_view text, Mac *mac) noexcept;
    bool is_timed; // the time of signing is in the request, and is signed
};

// Returns nullptr for an unknown name.
const WebhookFormat *webhook_format(std::string_view name) noexcept;

inline constexpr char kWebhookFormats[] = "standard, stripe, github, slack, shopify";

// The values of the format's fields, empty for absent ones. Several values of one field are joined by ", " (RFC 9110, section
// 5.3).
struct WebhookFields {
    std::string_view id;
    std::string_view time;
    std::string_view signature;
};

// With the source's name, a longer one could exceed the length of a key.
inline constexpr std::size_t kMaxWebhookIdBytes = 255;

// A request as its fields describe it. The texts are parts of the fields.
struct Webhook {
    std::string_view id;   // printable ASCII; empty: the fields have none
    std::string_view time; // is_timed: digits, as they were signed
    std::int64_t seconds;  // is_timed: the same time, since 1970
    std::string_view signatures;
};

// Returns false for a request that cannot be genuine: a field that is part of what is signed is absent or malformed, there is
// no signature, or the id is not printable ASCII or has over kMaxWebhookIdBytes bytes.
bool read_webhook(const WebhookFormat &format, const WebhookFields &fields, Webhook *webhook) noexcept;

// What the sender signs in front of the body.
std::string signed_before_body(const WebhookFormat &format, const Webhook &webhook);

// Whether `mac` is among the signatures. Compares in constant time with each of them.
bool has_signature(const WebhookFormat &format, const Webhook &webhook, const Mac &mac) noexcept;

// The id in the body: the string of the member id_member, of the last one as in jsonb and JSON.parse. Empty: the body is no
// JSON object, or has no such string, or one that has an escape, is not printable ASCII or has over kMaxWebhookIdBytes bytes.
std::string_view id_in_body(const WebhookFormat &format, std::string_view body) noexcept;

// The key of HMAC that a secret stands for. `out` has room for secret.size() bytes. A secret of the format standard is base64,
// which may have the prefix "whsec_"; without the prefix, one that is not base64 is the key itself. Other secrets are the key.
// Returns the size, or nullopt: what follows the prefix is not base64.
std::optional<std::size_t> webhook_key(const WebhookFormat &format, std::string_view secret, std::uint8_t *out) noexcept;

} // namespace idem::core
