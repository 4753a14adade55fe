-- Webhooks: the sender is genuine, the webhook is fresh, and it takes effect once.

CREATE TYPE idem_webhook_outcome AS ENUM ('accepted', 'duplicate', 'stale', 'invalid');
COMMENT ON TYPE idem_webhook_outcome IS
'The outcomes of idem_webhook_receive. accepted: genuine, fresh and new; duplicate: it was accepted before, and that has committed; stale: genuine, but signed too long ago, or too far ahead; invalid: no secret of its source signed it.';

CREATE TYPE idem_webhook_answer AS (
    outcome    idem_webhook_outcome,
    message_id text
);
COMMENT ON TYPE idem_webhook_answer IS 'The result of idem_webhook_receive. Call the function as SELECT * FROM idem_webhook_receive(...).';
COMMENT ON COLUMN idem_webhook_answer.outcome IS 'accepted: do the work in this transaction; all others: do nothing.';
COMMENT ON COLUMN idem_webhook_answer.message_id IS
'Identifies the webhook among those of its source: the sender''s id, or the SHA-256 of the body in hexadecimal digits if the sender gives none. NULL when invalid.';

-- As for idem_api_keys: no index and no statistics, which would hold copies of secrets.
CREATE TABLE idem_webhook_sources (
    source     text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    format     text COLLATE "C" NOT NULL,
    tolerance  interval    NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_webhook_sources ALTER source SET STATISTICS 0, ALTER created_at SET STATISTICS 0, ALTER expires_at SET STATISTICS 0,
    ALTER format SET STATISTICS 0, ALTER tolerance SET STATISTICS 0, ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_webhook_sources IS
'The secrets that verify webhooks. Not dumped: set the sources again after a restore. Change it only by idem_webhook_source_set and idem_webhook_source_drop; a role that can read it can sign.';
COMMENT ON COLUMN idem_webhook_sources.source IS 'The name that is passed to idem_webhook_receive; 1 to 255 bytes.';
COMMENT ON COLUMN idem_webhook_sources.created_at IS 'When the secret was set.';
COMMENT ON COLUMN idem_webhook_sources.expires_at IS 'Until when the secret verifies; infinity: until it is replaced.';
COMMENT ON COLUMN idem_webhook_sources.format IS 'What the sender signs, and how: standard, stripe, github, slack or shopify.';
COMMENT ON COLUMN idem_webhook_sources.tolerance IS 'How far the time of signing may be from the database''s clock; 0: the format has no time.';
COMMENT ON COLUMN idem_webhook_sources.secret IS 'The key of HMAC-SHA256. A secret of over 64 bytes is stored as its SHA-256, which gives the same signatures.';

CREATE FUNCTION idem_webhook_receive(source text, headers jsonb, body bytea)
RETURNS idem_webhook_answer LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_webhook_receive(text, jsonb, bytea) IS
'Verifies a webhook with the secrets of its source, in constant time, and accepts it once. headers: an object of the request''s header fields, {"name": "value" or ["value", ...]}, with names in any case. body: the bytes as received, before anything has parsed them. The webhook''s id is the key idem_key(source, message_id) in the scope ''webhook'', whose policy and owner apply. The key is kept for the scope''s ttl, and at least for twice the tolerance. Transactional: a rollback makes the webhook new again. Waits for a transaction that is processing the same webhook. Answer the sender with 2xx after the commit, also for a duplicate; with 4xx when it is stale or invalid. An id that the sender does not sign (github, shopify) can be changed by anybody who has seen a genuine request.
Errors: 22004 an argument is null; 22023 headers is not an object; 25006 a genuine and new webhook in a read-only transaction; the others as idem_claim. Any other mistake of a sender is invalid, and not an error. This includes an unknown source.';

CREATE FUNCTION idem_webhook_source_set(source text, format text, secret bytea, keep_old interval DEFAULT '0', tolerance interval DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_webhook_source_set(text, text, bytea, interval, interval) IS
'Sets the secret with which a source of webhooks signs; it takes effect at the commit. format: standard (Standard Webhooks), stripe, github, slack or shopify. secret: the bytes as the sender shows them. For standard, they are whsec_ and base64, or base64 alone, padded or not; bytes that are not base64 are the key itself. The previous secret verifies for keep_old longer (NULL: 0), with its format and tolerance. If several secrets signed a request, the newest one determines its id, and the request is fresh as long as it is fresh by any of them. tolerance: how far the time of signing may be from the database''s clock (NULL: 5 min); github and shopify sign no time. Secrets are in no dump: set them again after a restore. Pass the secret as a parameter, so that no logged statement contains it. Operators.
Errors: 22004 source, format or secret is null; 22023 source empty or over 255 bytes, unknown format, secret under 8 or over 1024 bytes or not base64 after whsec_, keep_old negative, tolerance not positive, over 7 days, or given for a format without time; 25006 in a read-only transaction.';

CREATE FUNCTION idem_webhook_source_drop(source text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_webhook_source_drop(text) IS
'Drops all secrets of a source, with effect at the commit; false if it had none. Operators. Errors: 22004, 22023, 25006 as idem_webhook_source_set.';

-- Also for a secret that is deleted by hand: it must no longer verify in any session.
CREATE TRIGGER idem_webhook_sources_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_webhook_sources
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_webhook_sources ENABLE ALWAYS TRIGGER idem_webhook_sources_changed;
COMMENT ON TRIGGER idem_webhook_sources_changed ON idem_webhook_sources IS 'Makes every session read the table again.';
