-- One-time tokens: issued without writing anything, redeemed once.

CREATE TYPE idem_token_outcome AS ENUM ('accepted', 'duplicate', 'in_flight', 'expired', 'invalid');
COMMENT ON TYPE idem_token_outcome IS
'Outcome of a token''s redemption. accepted: do the work; duplicate: the token was redeemed, and that has committed; in_flight: another transaction is redeeming it; expired: the token is past its expiry; invalid: it was not issued by this database for this subject and scope, or is revoked.';

-- Redeemed tokens have the columns of keys, in a table of their own, so that a token and a key can have the same name.
CREATE TABLE idem_tokens (
    LIKE idem_keys INCLUDING COMMENTS INCLUDING INDEXES, CHECK (state IN ('p', 'c', 'r', 'd'))
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
COMMENT ON TABLE idem_tokens IS
'Redeemed tokens: a space of names apart from the keys, with the same columns. Change it only by the functions.';
COMMENT ON COLUMN idem_tokens.scope IS 'The scope that the token was issued for.';
COMMENT ON COLUMN idem_tokens.key IS 'Name of the redemption, unique to the token.';

SELECT pg_catalog.pg_extension_config_dump('idem_tokens', '');

-- No primary key: the function that writes the few rows maintains no index. No statistics: they would contain secrets.
CREATE TABLE idem_token_secrets (
    key_id     integer     NOT NULL,
    database   oid         NOT NULL,
    created_at timestamptz NOT NULL,
    secret     bytea       NOT NULL
);
ALTER TABLE idem_token_secrets ALTER key_id SET STATISTICS 0, ALTER database SET STATISTICS 0,
    ALTER created_at SET STATISTICS 0, ALTER secret SET STATISTICS 0, ALTER secret SET STORAGE PLAIN;
COMMENT ON TABLE idem_token_secrets IS
'Secrets that sign tokens. Not dumped: after a restore from a dump, outstanding tokens are invalid. Change it only by idem_token_rotate_secret; a role that can read it can forge tokens.';
COMMENT ON COLUMN idem_token_secrets.key_id IS 'Number by which a token names its secret; the secret with the greatest one signs.';
COMMENT ON COLUMN idem_token_secrets.database IS 'The database that created the secret; a copy of that database creates its own.';
COMMENT ON COLUMN idem_token_secrets.created_at IS 'When the secret was created. Its predecessor verifies for eight days from then on.';
COMMENT ON COLUMN idem_token_secrets.secret IS 'The key of HMAC-SHA256.';

CREATE FUNCTION idem_token_issue(subject text DEFAULT '', ttl interval DEFAULT '30 min', scope text DEFAULT '')
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_issue(text, interval, text) IS
'Issues a token that can be redeemed once, by the same subject (a user, a session, a form) in the same scope, within its ttl. The token has 82 URL-safe characters. Writes nothing: works in read-only transactions and on a standby. NULL for an argument means its default.
Errors: 22023 ttl not positive or over 7 days, scope over 255 bytes; 25006 there is no secret yet, and none can be written; 42501 scope of another owner.';

CREATE FUNCTION idem_token_redeem(token text, subject text DEFAULT '', scope text DEFAULT '')
RETURNS idem_token_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_redeem(text, text, text) IS
'Redeems a token for this transaction; never waits. accepted: do the work; a rollback makes the token good again. duplicate: the token was redeemed, and that has committed. in_flight: another transaction is redeeming it. expired: the token is past its expiry. invalid: it was not issued by this database for this subject and scope, or is revoked.
Errors: 22004 token is null; 22023 scope over 255 bytes; 25006 a good token in a read-only transaction or on a standby; 40001 under REPEATABLE READ and SERIALIZABLE, when the answer rests on a row that the snapshot cannot see; 42501 scope of another owner.';

CREATE FUNCTION idem_token_rotate_secret(revoke boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_rotate_secret(boolean) IS
'Signs tokens with a new secret, from its commit on. Old secrets verify until the last token that they could have signed has expired. With revoke, old secrets no longer verify: all outstanding tokens are invalid. NULL means false. Operators.';

-- An operator may delete a secret by hand. Sessions must then no longer use their copy of it.
CREATE TRIGGER idem_token_secrets_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_token_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_token_secrets ENABLE ALWAYS TRIGGER idem_token_secrets_changed;
COMMENT ON TRIGGER idem_token_secrets_changed ON idem_token_secrets IS 'Makes every session read the table again.';

-- The first secret, so that a standby can issue tokens at once.
SELECT idem_token_rotate_secret();
