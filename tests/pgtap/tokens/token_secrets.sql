-- Secrets are where nobody sees them, and only operators rotate them. Dumps, logs, standbys: tests/recovery/012_tokens.pl.
\ir ../include/helpers.psql
SELECT plan(28);
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
CALL pg_temp.clean('secret:');

-- Rotation makes a secret and keeps the old one for as long as it is needed.
SELECT idem_token_rotate_secret(revoke => true);
SELECT is((SELECT count(*) FROM idem_token_secrets), 1::bigint, 'one_secret_after_a_revocation');
SELECT is((SELECT array_agg(octet_length(secret)) FROM idem_token_secrets), '{32}', 'of_256_bits');
SELECT key_id AS first FROM idem_token_secrets \gset
SELECT idem_token_rotate_secret(), idem_token_rotate_secret();
SELECT is((SELECT array_agg(key_id - :first ORDER BY key_id) FROM idem_token_secrets), '{0,1,2}', 'old_secrets_stay');
SELECT is((SELECT count(DISTINCT secret) FROM idem_token_secrets), 3::bigint, 'secrets_differ');
SELECT idem_token_issue() AS t \gset
UPDATE idem_token_secrets SET created_at = now() - interval '8 days 1 minute' WHERE key_id <= :first + 1;
SELECT idem_token_rotate_secret();
SELECT is((SELECT array_agg(key_id - :first ORDER BY key_id) FROM idem_token_secrets), '{1,2,3}',
          'and_go_when_the_last_token_they_signed_has_expired');
SELECT is(idem_token_redeem(:'t'), 'accepted', 'its_tokens_verify_until_then');

-- A secret that is out of use verifies nothing, even where its row is still there: whoever got hold of it cannot go on.
SELECT idem_token_issue('long', '7 days') AS t \gset
SELECT idem_token_rotate_secret();
UPDATE idem_token_secrets SET created_at = now() - interval '2 days' WHERE key_id = :first + 4;
SELECT is(idem_token_redeem(:'t', 'long'), 'invalid', 'token_that_outlives_its_secret');

-- The MAC is the HMAC-SHA256 of RFC 2104 under the secret that the token names, whichever secret the session used last.
CREATE FUNCTION pg_temp.padded(key bytea, pad int) RETURNS bytea LANGUAGE sql AS $$
    SELECT string_agg(set_byte('\x00', 0, get_byte(key || decode(repeat('00', 32), 'hex'), i) # pad), '' ORDER BY i) FROM generate_series(0, 63) AS i
$$;
CREATE FUNCTION pg_temp.hmac(key bytea, message bytea) RETURNS bytea LANGUAGE sql AS $$
    SELECT sha256(pg_temp.padded(key, 92) || sha256(pg_temp.padded(key, 54) || message))
$$;
CREATE TEMP TABLE issued AS SELECT 1 AS n, idem_token_issue('alice', scope => 'secret:mac') AS token;
SELECT idem_token_rotate_secret();
INSERT INTO issued SELECT 2, idem_token_issue('alice', scope => 'secret:mac');
SELECT idem_token_redeem(token, 'alice', 'secret:mac') FROM issued WHERE n = 1;
INSERT INTO issued SELECT n, idem_token_issue('alice', scope => 'secret:mac') FROM generate_series(3, 5) AS n;
SELECT is((SELECT string_agg(format('%s %s', s.key_id - newest, substring(b.bytes FROM 30) = pg_temp.hmac(s.secret,
                substring(b.bytes FOR 29) || '\x0000000a' || 'secret:mac' || '\x00000005' || 'alice')), ', ' ORDER BY n)
             FROM issued, (SELECT max(key_id) FROM idem_token_secrets) AS m (newest),
                  LATERAL (SELECT decode(translate(token, '-_', '+/') || '==', 'base64') AS bytes) AS b, idem_token_secrets AS s
            WHERE s.key_id = ('x' || encode(substring(b.bytes FROM 2 FOR 4), 'hex'))::bit(32)::int),
          '-1 t, 0 t, 0 t, 0 t, 0 t', 'mac_is_that_of_the_standard_whichever_secret_was_used_last');

-- Rotation is transactional.
SELECT idem_token_issue() AS t \gset
BEGIN;
SELECT idem_token_rotate_secret(revoke => true);
SELECT idem_token_issue() AS own, idem_token_redeem(:'t') AS before \gset
SELECT idem_token_redeem(:'own') AS within \gset
ROLLBACK;
SELECT is(ARRAY[:'before', :'within'], '{invalid,accepted}', 'rotation_holds_at_once_in_its_own_transaction');
SELECT is(ARRAY[idem_token_redeem(:'t'), idem_token_redeem(:'own')], '{accepted,invalid}', 'and_is_rolled_back_with_it');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of('SELECT idem_token_rotate_secret()'), '25006', 'rotation_in_a_read_only_transaction');
ROLLBACK;

-- Without any secret, the first to issue makes one, if it may.
DELETE FROM idem_token_secrets;
BEGIN READ ONLY;
SELECT is(pg_temp.state_of('SELECT idem_token_issue()'), '25006', 'no_secret_in_a_read_only_transaction');
ROLLBACK;
SELECT is(idem_token_redeem(idem_token_issue()), 'accepted', 'first_to_issue_makes_one');
SELECT is((SELECT count(*) FROM idem_token_secrets), 1::bigint, 'one_of_them');
-- A row that came with a copied database is nobody's.
UPDATE idem_token_secrets SET database = 1;
SELECT idem_token_issue() AS t \gset
SELECT is((SELECT array_agg(database = (SELECT oid FROM pg_database WHERE datname = current_database())) FROM idem_token_secrets),
          '{t}', 'secret_of_another_database_is_replaced');

-- Who.
BEGIN;
CREATE ROLE tap_nobody;
CREATE ROLE tap_user;
CREATE ROLE tap_operator;
GRANT USAGE ON SCHEMA idem TO tap_nobody;
SELECT idem_grant('tap_user'), idem_grant('tap_operator', true);
SELECT is((SELECT string_agg(role || ' ' || call || ' ' || state, ', ')
             FROM (VALUES ('tap_nobody', 'issue()', '42501'), ('tap_nobody', 'redeem(''x'')', '42501'), ('tap_nobody', 'rotate_secret()', '42501'),
                          ('tap_user', 'issue()', 'ok'), ('tap_user', 'redeem(''x'')', 'ok'), ('tap_user', 'rotate_secret()', '42501'),
                          ('tap_operator', 'issue()', 'ok'), ('tap_operator', 'redeem(''x'')', 'ok'), ('tap_operator', 'rotate_secret()', 'ok'))
                  AS matrix (role, call, expected),
                  pg_temp.state_as(role::name, 'SELECT idem.idem_token_' || call) AS state
            WHERE state <> expected), NULL, 'applications_issue_and_redeem_operators_rotate');
SELECT is((SELECT string_agg(role || ' ' || relation, ', ')
             FROM unnest('{tap_nobody,tap_user,tap_operator}'::name[]) AS role, unnest('{idem_token_secrets,idem_tokens}'::name[]) AS relation
            WHERE pg_temp.state_as(role, 'SELECT * FROM idem.' || relation) <> '42501'), NULL, 'nobody_reads_the_tables');
SELECT idem_scope_set('secret:owned', owner => 'tap_operator');
SELECT is(pg_temp.state_as('tap_user', $$ SELECT idem.idem_token_issue(scope => 'secret:owned') $$) || ' '
          || pg_temp.state_as('tap_user', $$ SELECT idem.idem_token_redeem('x', scope => 'secret:owned') $$) || ' '
          || pg_temp.state_as('tap_operator', $$ SELECT idem.idem_token_issue(scope => 'secret:owned') $$), '42501 42501 ok', 'scope_of_another_owner');
SET LOCAL idem.require_registered_scope = on;
SELECT is(pg_temp.state_of($$ SELECT idem_token_issue(scope => 'secret:unknown') $$), '42704', 'scope_that_is_not_registered');
ROLLBACK;

-- What could carry a secret away: dumps, statistics, indexes.
SELECT is((SELECT extconfig @> ARRAY['idem_tokens'::regclass::oid] AND NOT extconfig @> ARRAY['idem_token_secrets'::regclass::oid]
             FROM pg_extension WHERE extname = 'idem'), true, 'redeemed_tokens_are_dumped_secrets_are_not');
ANALYZE idem_token_secrets;
SELECT is((SELECT count(*) FROM pg_stats WHERE tablename = 'idem_token_secrets'), 0::bigint, 'secrets_are_in_no_statistics');
BEGIN;
CREATE INDEX ON idem_token_secrets (key_id);
SELECT is(pg_temp.state_of('SELECT idem_token_issue()'), '55000', 'index_on_secrets');
ROLLBACK;
BEGIN;
ALTER TABLE idem_token_secrets SET UNLOGGED;
SELECT is(pg_temp.state_of('SELECT idem_token_issue()'), '55000', 'secrets_not_logged');
ROLLBACK;

BEGIN;
ALTER TABLE idem_token_secrets REPLICA IDENTITY FULL;
SELECT is(pg_temp.state_of('SELECT idem_token_issue()'), '55000', 'secrets_whose_deletion_would_be_replicated');
ROLLBACK;
BEGIN;
ALTER TABLE idem_token_secrets ALTER secret DROP NOT NULL;
UPDATE idem_token_secrets SET secret = NULL;
SELECT is(pg_temp.state_of('SELECT idem_token_issue()'), '55000', 'secret_that_is_null');
ROLLBACK;

-- Two secrets under one key id, as when the table was copied: each verifies its own.
SELECT idem_token_issue() AS t \gset
INSERT INTO idem_token_secrets SELECT key_id, database, created_at + interval '1 second', sha256(secret) FROM idem_token_secrets ORDER BY key_id DESC LIMIT 1;
SELECT idem_token_issue() AS u \gset
SELECT is(ARRAY[idem_token_redeem(:'t'), idem_token_redeem(:'u')], '{accepted,accepted}', 'secrets_with_one_key_id');
SELECT idem_token_rotate_secret(revoke => true);

-- No error has one in it: neither that of a constraint that the row breaks, nor a trigger sees it.
BEGIN;
ALTER TABLE idem_token_secrets ADD CHECK (false) NOT VALID;
CREATE FUNCTION pg_temp.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'secret %', new.secret; END $$;
SELECT pg_temp.state_of('CREATE TRIGGER tell BEFORE INSERT ON idem_token_secrets FOR EACH ROW EXECUTE FUNCTION pg_temp.tell()') \gset dropped_
-- Citus refuses it.
SELECT is(pg_temp.state_of('SELECT idem_token_rotate_secret()'), 'ok', 'constraints_and_triggers_do_not_fire');
ROLLBACK;
UPDATE idem_token_secrets SET secret = 'short';
SELECT throws_ok('SELECT idem_token_issue()', 'XX001', NULL, 'damaged_secret');
DELETE FROM idem_token_secrets;

DELETE FROM idem_tokens;
CALL pg_temp.clean('secret:');
SELECT * FROM finish();
