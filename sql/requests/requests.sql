-- Signed requests: the sender is genuine, the content is unchanged, and the request is new.

CREATE TYPE idem_request_outcome AS ENUM ('accepted', 'replayed', 'stale', 'invalid');
COMMENT ON TYPE idem_request_outcome IS
'The outcomes of idem_verify_request. accepted: genuine, fresh and new; replayed: it was accepted before, and that has committed; stale: genuine, but signed too long ago, or too far ahead; invalid: no secret of its key id signed it.';

-- As for idem_token_secrets: no index and no statistics, which would hold copies of secrets.
CREATE TABLE idem_api_keys (
    key_id     text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_api_keys ALTER key_id SET STATISTICS 0, ALTER created_at SET STATISTICS 0, ALTER expires_at SET STATISTICS 0,
    ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_api_keys IS
'The secrets that verify signed requests. Not dumped: set the secrets again after a restore. Change it only by idem_api_key_set and idem_api_key_drop; a role that can read it can sign.';
COMMENT ON COLUMN idem_api_keys.key_id IS 'The id by which requests name their secret; 1 to 255 bytes.';
COMMENT ON COLUMN idem_api_keys.created_at IS 'When the secret was set.';
COMMENT ON COLUMN idem_api_keys.expires_at IS 'Until when the secret verifies; infinity: until it is replaced.';
COMMENT ON COLUMN idem_api_keys.secret IS 'The key of HMAC-SHA256. A secret of over 64 bytes is stored as its SHA-256, which gives the same signatures.';

CREATE FUNCTION idem_verify_request(params jsonb, signature text, key_id text, signed_at timestamptz, nonce text,
                                    tolerance interval DEFAULT '5 min', scope text DEFAULT 'nonce')
RETURNS idem_request_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_verify_request(jsonb, text, text, timestamptz, text, interval, text) IS
'Verifies a request that was signed with a secret of key_id, and accepts it once. signature: HMAC-SHA256, in hexadecimal digits, of the text that idem_request_message returns. It is compared in constant time. A genuine request that was signed no further than tolerance from now is accepted once. Its nonce, any text that the sender uses once, is the key idem_key(key_id, nonce) in the scope (NULL: ''nonce''), kept for twice the tolerance. Transactional: a rollback makes the nonce new again. Waits for a transaction that is verifying the same nonce. Always use the same tolerance (NULL: 5 min), and the same scope.
Errors: 22004 one of the first five arguments is null; 22023 params is not an object, tolerance not positive or over 7 days; 25006 a genuine request in a read-only transaction; the others as idem_claim. Any other mistake of a sender is invalid, and not an error. This includes a message of over 1 MB, parameters nested more than 100 deep, and text without a form in UTF-8.';

CREATE FUNCTION idem_request_message(params jsonb, key_id text, signed_at timestamptz, nonce text)
RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_request_message(jsonb, text, timestamptz, text) IS
'Returns the text that a sender signs: the JSON array ["idem1", key_id, signed_at, nonce, params] without white space, in UTF-8. signed_at is in microseconds since 1970. Names are sorted by code point, numbers are exact and in plain decimal notation, and strings are written as in RFC 8785. (RFC 8785 itself sorts by UTF-16 unit and makes doubles of numbers.) docs/requests.md has code for senders. If a name is given twice, make an array of its values: jsonb would keep the last one only.
Errors: 22004 an argument is null; 22023 params is not an object, signed_at is infinite or out of range; 54000 a message of over 1 MB, or nested more than 100 deep; 22021 text without a form in UTF-8.';

CREATE FUNCTION idem_api_key_set(key_id text, secret bytea, keep_old interval DEFAULT '0')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_set(text, bytea, interval) IS
'Sets the secret with which requests of a key id are signed; it takes effect at the commit. The previous secret verifies for keep_old longer (NULL: 0), so that senders can change over. Secrets are in no dump: set them again after a restore. Pass the secret as a parameter, so that no logged statement contains it. Operators.
Errors: 22004 key_id or secret is null; 22023 key_id empty or over 255 bytes, secret under 16 or over 1024 bytes, keep_old negative; 25006 in a read-only transaction.';

CREATE FUNCTION idem_api_key_drop(key_id text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_api_key_drop(text) IS
'Drops all secrets of a key id, with effect at the commit; false if it had none. Operators. Errors: 22004, 22023, 25006 as idem_api_key_set.';

-- Also for a secret that is deleted by hand: it must no longer verify in any session.
CREATE TRIGGER idem_api_keys_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_api_keys ENABLE ALWAYS TRIGGER idem_api_keys_changed;
COMMENT ON TRIGGER idem_api_keys_changed ON idem_api_keys IS 'Makes every session read the table again.';
