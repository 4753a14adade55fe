-- An operator's part: the senders and their secrets. A real secret is a parameter, and in no file.
SELECT idem.idem_webhook_source_set('standard', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
SELECT idem.idem_webhook_source_set('stripe', 'stripe', 'whsec_secret_of_stripe');
SELECT idem.idem_webhook_source_set('github', 'github', 'secret of github');
SELECT idem.idem_webhook_source_set('slack', 'slack', 'secret of slack');
SELECT idem.idem_webhook_source_set('shopify', 'shopify', 'secret of shopify');
SELECT idem.idem_scope_set('webhook', ttl => '30 days');
