-- One-time tokens: issued without writing anything, redeemed once.

CREATE FUNCTION idem_token_issue(subject text DEFAULT '', ttl interval DEFAULT '30 min', scope text DEFAULT '')
RETURNS text LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_issue(text, interval, text) IS
'A token that can be redeemed once, by the same subject (a user, a session, a form) in the same scope, within its ttl. 82 URL-safe characters. Writes nothing: works in read-only transactions and on a standby.
Errors: 22004 an argument is null; 22023 ttl not positive or over 7 days, scope over 255 bytes; 25006 there is no secret yet, and none can be written; 42501 scope of another owner.';

CREATE FUNCTION idem_token_redeem(token text, subject text DEFAULT '', scope text DEFAULT '')
RETURNS idem_token_outcome LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_redeem(text, text, text) IS
'Redeems a token for this transaction; never waits. accepted: do the work; if you roll back, the token is good again. duplicate: it was redeemed, and that has committed. in_flight: another transaction is redeeming it. expired, or invalid: whatever is not a live token of this database for this subject and scope.
Errors: 22004 an argument is null; 22023 scope over 255 bytes; 25006 a good token in a read-only transaction or on a standby; 40001 under REPEATABLE READ and SERIALIZABLE, when the answer rests on a row the snapshot cannot see; 42501 scope of another owner.';

CREATE FUNCTION idem_token_rotate_secret(revoke boolean DEFAULT false)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_token_rotate_secret(boolean) IS
'Signs with a new secret from its commit on. Old secrets verify until the last token that they could have signed has expired; with revoke, no more: all outstanding tokens are invalid. Operators. Error: 22004 revoke is null.';

-- Whoever deletes a secret by hand means it.
CREATE TRIGGER idem_token_secrets_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON idem_token_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_token_secrets ENABLE ALWAYS TRIGGER idem_token_secrets_changed;
COMMENT ON TRIGGER idem_token_secrets_changed ON idem_token_secrets IS 'Makes every session read the table again.';

-- The first secret, so that a standby can issue tokens at once.
SELECT idem_token_rotate_secret();
