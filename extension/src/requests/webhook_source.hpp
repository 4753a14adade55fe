// The senders of webhooks: rows of idem_webhook_sources, each a secret with the format in which it signs.
#pragma once

#include "core/webhook.hpp"
#include "requests/signing_secret.hpp"

namespace idem {

extern Member webhook_sources;

struct WebhookSecret {
    const core::WebhookFormat *format;
    core::Micros tolerance; // 0: the format is not timed
    Secret secret;
};

// Finds the n-th secret, from 0 on, that verifies for this source at `now`. Returns false when there is none.
bool find_webhook_secret(const text *source, int n, core::Micros now, WebhookSecret *found);

} // namespace idem
