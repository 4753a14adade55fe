#include "core/webhook.hpp"

#include "core/trimmed.hpp"

#include <algorithm>

namespace idem::core {

namespace {

constexpr WebhookFormat kFormats[] = {
    {WebhookSender::standard, "standard", "webhook-id", "", "webhook-timestamp", "webhook-signature", "v1,", ' ',
     read_base64_mac, true},
    {WebhookSender::stripe, "stripe", "", "id", "", "stripe-signature", "v1=", ',', read_hex_mac, true},
    {WebhookSender::github, "github", "x-github-delivery", "", "", "x-hub-signature-256", "sha256=", ',', read_hex_mac, false},
    {WebhookSender::slack, "slack", "", "event_id", "x-slack-request-timestamp", "x-slack-signature", "v0=", ',', read_hex_mac,
     true},
    {WebhookSender::shopify, "shopify", "x-shopify-webhook-id", "", "", "x-shopify-hmac-sha256", "", ',', read_base64_mac,
     false},
};

constexpr std::string_view kBlanks = " \t\r\n";

// Takes the text before the next separator off the front. Commas around it come from fields that were joined.
std::string_view take_item(std::string_view *list, char separator) {
    const std::size_t end = std::min(list->find(separator), list->size());
    const std::string_view item = list->substr(0, end);
    list->remove_prefix(std::min(end + 1, list->size()));
    return trimmed(item, " \t,");
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool read_seconds(std::string_view digits, std::int64_t *seconds) {
    constexpr std::size_t kMaxDigits = 11; // until the year 5138
    if (digits.empty() || digits.size() > kMaxDigits)
        return false;
    *seconds = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9')
            return false;
        *seconds = *seconds * 10 + (c - '0');
    }
    return true;
}

// Stripe's time is an item "t=" of the signatures. Of two times, neither is taken.
std::string_view time_in_list(std::string_view list) {
    std::string_view time;
    for (int count = 0; !list.empty();)
        if (const std::string_view item = take_item(&list, ','); item.starts_with("t=")) {
            if (++count > 1)
                return {};
            time = item.substr(2);
        }
    return time;
}

// Walks over JSON without recursion, so that no nesting exhausts the stack. It finds where values end and accepts some texts
// that are not JSON.
class Walker {
  public:
    explicit Walker(std::string_view text) : rest_(text) {}

    bool at_end() {
        skip_blanks();
        return rest_.empty();
    }
    bool take(char c) {
        skip_blanks();
        if (!rest_.starts_with(c))
            return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool is_at(char c) {
        skip_blanks();
        return rest_.starts_with(c);
    }

    // What stands between the quotes.
    bool string(std::string_view *content) {
        if (!take('"'))
            return false;
        for (std::size_t i = 0; i < rest_.size(); i++) {
            if (rest_[i] == '"') {
                *content = rest_.substr(0, i);
                rest_.remove_prefix(i + 1);
                return true;
            }
            if (rest_[i] == '\\')
                i++;
        }
        return false;
    }

    bool value() {
        std::size_t depth = 0;
        do {
            std::string_view ignored;
            if (is_at('"')) {
                if (!string(&ignored))
                    return false;
            } else if (take('{') || take('['))
                depth++;
            else if (depth > 0 && (take('}') || take(']')))
                depth--;
            else if (!(depth > 0 && (take(',') || take(':'))) && !scalar())
                return false;
        } while (depth > 0);
        return true;
    }

  private:
    void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size())); }

    bool scalar() {
        const std::size_t size = std::min(rest_.find_first_of(" \t\r\n,:{}[]\""), rest_.size());
        rest_.remove_prefix(size);
        return size > 0;
    }

    std::string_view rest_;
};

// The content of the last string of this name in the object, or an empty text.
std::string_view string_member(std::string_view object, std::string_view name) {
    Walker walker(object);
    std::string_view found, member;
    if (!walker.take('{') || walker.take('}'))
        return {};
    do {
        if (!walker.string(&member) || !walker.take(':'))
            return {};
        std::string_view content;
        if (!(walker.is_at('"') ? walker.string(&content) : walker.value()))
            return {};
        if (member == name)
            found = content;
    } while (walker.take(','));
    return walker.take('}') && walker.at_end() ? found : std::string_view();
}

} // namespace

const WebhookFormat *webhook_format(std::string_view name) noexcept {
    const auto *found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const auto &f) { return f.name == name; });
    return found == std::end(kFormats) ? nullptr : found;
}

bool read_webhook(const WebhookFormat &format, const WebhookFields &fields, Webhook *webhook) noexcept {
    webhook->signatures = fields.signature;
    webhook->id = trimmed(fields.id, kBlanks);
    webhook->time = format.sender == WebhookSender::stripe ? time_in_list(fields.signature) : trimmed(fields.time, kBlanks);
    webhook->seconds = 0;
    if (webhook->signatures.empty() || webhook->id.size() > kMaxWebhookIdBytes || !is_printable(webhook->id))
        return false;
    if (format.sender == WebhookSender::standard && webhook->id.empty())
        return false;
    return !format.is_timed || read_seconds(webhook->time, &webhook->seconds);
}

std::string signed_before_body(const WebhookFormat &format, const Webhook &webhook) {
    switch (format.sender) {
    case WebhookSender::standard:
        return std::string(webhook.id).append(".").append(webhook.time).append(".");
    case WebhookSender::stripe:
        return std::string(webhook.time).append(".");
    case WebhookSender::slack:
        return std::string("v0:").append(webhook.time).append(":");
    default:
        return {};
    }
}

bool has_signature(const WebhookFormat &format, const Webhook &webhook, const Mac &mac) noexcept {
    bool found = false;
    for (std::string_view list = webhook.signatures; !list.empty();) {
        std::string_view item = take_item(&list, format.separator);
        if (!item.starts_with(format.signature_prefix))
            continue;
        item.remove_prefix(format.signature_prefix.size());
        Mac given;
        if (format.read_mac(item, &given))
            found |= same_mac(given, mac);
    }
    return found;
}

std::string_view id_in_body(const WebhookFormat &format, std::string_view body) noexcept {
    if (format.id_member.empty())
        return {};
    const std::string_view id = string_member(body, format.id_member);
    const bool is_usable = id.size() <= kMaxWebhookIdBytes && is_printable(id) && id.find('\\') == id.npos;
    return is_usable ? id : std::string_view();
}

std::optional<std::size_t> webhook_key(const WebhookFormat &format, std::string_view secret, std::uint8_t *out) noexcept {
    constexpr std::string_view kPrefix = "whsec_";
    if (format.sender == WebhookSender::standard) {
        if (secret.starts_with(kPrefix))
            return read_base64(secret.substr(kPrefix.size()), out, secret.size());
        if (const auto size = read_base64(secret, out, secret.size()))
            return size;
    }
    std::copy(secret.begin(), secret.end(), out);
    return secret.size();
}

} // namespace idem::core
