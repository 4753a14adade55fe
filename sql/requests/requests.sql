-- Signed requests: who sent it, that nobody changed it, and that it has not been here before.

CREATE TYPE idem_request_outcome AS ENUM ('accepted', 'replayed', 'stale', 'invalid');
COMMENT ON TYPE idem_request_outcome IS
'What a signed request is. accepted: genuine, fresh and new; replayed: it was accepted before, and that has committed; stale: genuine, but signed too long ago, or too far ahead; invalid: no secret of its key id signed it.';

-- As with idem_token_secrets: no index, no statistics, nothing that could carry a secret away.
CREATE TABLE idem_api_keys (
    key_id     text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_api_keys ALTER key_id SET STATISTICS 0, ALTER created_at SET STATISTICS 0, ALTER expires_at SET STATISTICS 0,
    ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_api_keys IS
'What signed requests are verified with. Not dumped: set the secrets again after a restore. Change it only by idem_api_key_set and idem_api_key_drop; a role that can read it can sign.';
COMMENT ON COLUMN idem_api_keys.key_id IS 'What requests name their secret by; 1 to 255 bytes.';
COMMENT ON COLUMN idem_api_keys.created_at IS 'When it was set.';
COMMENT ON COLUMN idem_api_keys.expires_at IS 'Until when it verifies; infinity: until it is replaced.';
COMMENT ON COLUMN idem_api_keys.secret IS 'The key of HMAC-SHA256; of one over 64 bytes, its SHA-256, which gives the same.';

CREATE FUNCTION idem_verify_request(params jsonb, signature text, key_id text, signed_at timestamptz, nonce text,
                                    tolerance interval DEFAULT '5 min', scope text DEFAULT 'nonce')
RETURNS idem_request_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_verify_request(jsonb, text, text, timestamptz, text, interval, text) IS
'Checks a request that somebody signed with a secret of key_id: signature is HMAC-SHA256, in hexadecimal digits, of what idem_request_message gives for it. Compared in constant time. A request that is genuine, and signed no further than tolerance from now, is accepted once: its nonce, any text that the sender uses once, is the key idem_key(key_id, nonce) in the scope (NULL: ''nonce''), kept for twice the tolerance. Transactional: a rollback makes the nonce new again. Waits for a transaction that has the same nonce in hand. Always use the same tolerance (NULL: 5 min), and the same scope.
Errors: 22004 one of the first five arguments is null; 22023 params is no object, tolerance not positive or over 7 days; 25006 a genuine request in a read-only transaction; the others as idem_claim. Whatever else a sender can get wrong is invalid, also a message of over 1 MB, parameters nested more than 100 deep, and text without a form in UTF-8.';

CREATE FUNCTION idem_request_message(params jsonb, key_id text, signed_at timestamptz, nonce text)
RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_request_message(jsonb, text, timestamptz, text) IS
'The text that a sender signs: the JSON array ["idem1", key_id, signed_at in microseconds since 1970, nonce, params] without white space, in UTF-8: names sorted by code point, numbers exact and in plain decimal notation, strings as RFC 8785 writes them (which itself sorts by UTF-16 unit and makes doubles of numbers). docs/requests.md has code for senders. A name that is given twice must be an array: jsonb would keep the last value only.
Errors: 22004 an argument is null; 22023 params is no object, signed_at is infinite or out of range; 54000 a message of over 1 MB, or nested more than 100 deep; 22021 text without a form in UTF-8.';

CREATE FUNCTION idem_api_key_set(key_id text, secret bytea, keep_old interval DEFAULT '0')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_set(text, bytea, interval) IS
'Gives a key id a secret to sign requests with; from its commit on. The secret that it had verifies for keep_old longer (NULL: 0), so that senders can change over. Secrets are in no dump: set them again after a restore. Pass the secret as a parameter, so that it is in no statement that is logged. Operators.
Errors: 22004 key_id or secret is null; 22023 key_id empty or over 255 bytes, secret under 16 or over 1024 bytes, keep_old negative; 25006 in a read-only transaction.';

CREATE FUNCTION idem_api_key_drop(key_id text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_drop(text) IS
'Takes a key id all its secrets, at once; false when it had none. Operators. Errors: 22004, 22023, 25006 as idem_api_key_set.';

-- A secret is deleted by hand on purpose.
CREATE TRIGGER idem_api_keys_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_api_keys ENABLE ALWAYS TRIGGER idem_api_keys_changed;
COMMENT ON TRIGGER idem_api_keys_changed ON idem_api_keys IS 'Makes every session read the table again.';
