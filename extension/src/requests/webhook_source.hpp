// The senders of webhooks: rows of idem_webhook_sources, each a secret with the format in which it signs.
#pragma once

#include "core/webhook.hpp"
#include "requests/signing_secret.hpp"

namespace idem {

extern Member webhook_sources;
extern SecretStore webhook_source_store;

const core::WebhookFormat &format_of(const StoredSecret &source);
core::Micros tolerance_of(const StoredSecret &source); // 0: the format is not timed

} // namespace idem
