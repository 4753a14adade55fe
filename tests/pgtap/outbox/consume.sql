-- idem_consume: one effect per consumer and message. Two consumers at once: isolation/specs/consume.spec.
\ir ../include/helpers.psql
SELECT plan(20);
CALL pg_temp.clean('inbox');

SELECT is(idem_consume('billing', 'inbox:1'), true, 'new_message');
SELECT is(idem_consume('billing', 'inbox:1'), false, 'message_that_was_seen');
SELECT is(idem_consume('shipping', 'inbox:1'), true, 'another_consumer_sees_it_for_the_first_time');
SELECT is(idem_consume('a', 'b:c'), true, 'names_with_colons');
SELECT is(idem_consume('a:b', 'c'), true, 'do_not_run_together');
SELECT is((SELECT count(*) FROM idem_lookup(idem_key('billing', 'inbox:1'), scope => 'inbox')), 1::bigint, 'it_is_a_key_of_the_scope_inbox');
SELECT is(idem_claim(idem_key('billing', 'inbox:1'), scope => 'inbox'), false, 'that_clients_of_other_languages_can_claim');

BEGIN;
SELECT is(idem_consume('billing', 'inbox:2'), true, 'message_of_a_transaction');
SELECT is(idem_consume('billing', 'inbox:2'), false, 'is_seen_in_it');
ROLLBACK;
SELECT is(idem_consume('billing', 'inbox:2'), true, 'rolled_back_it_is_new');

-- Retention: the call's, else the scope's.
SELECT idem_consume('billing', 'inbox:3', '1 ms');
CALL pg_temp.sleep('5 ms');
SELECT is(idem_consume('billing', 'inbox:3'), true, 'message_that_is_forgotten');
SELECT idem_scope_set('inbox', ttl => '30 days');
SELECT idem_consume('billing', 'inbox:4');
SELECT is((SELECT round(extract(epoch FROM expires_at - clock_timestamp()) / 86400)::numeric FROM idem_lookup(idem_key('billing', 'inbox:4'), scope => 'inbox')),
          30::numeric, 'policy_of_the_scope_applies');
SELECT idem_scope_drop('inbox');
SELECT is(idem_consume('billing', 'inbox:1', NULL, NULL), false, 'null_scope_is_the_inbox');
SELECT is(idem_consume('billing', 'inbox:1', scope => 'inbox:other'), true, 'another_scope_is_another_inbox');
SELECT is(idem_consume('billing', 'inbox:1', scope => 'inbox:other'), false, 'which_remembers_its_own');

SELECT is((SELECT string_agg(call || ' ' || state, ', ')
             FROM (VALUES ('NULL, ''x''', '22004'), ('''x'', NULL', '22004'), (''''', ''x''', '22023'), ('''x'', ''''', '22023'),
                          ('''x'', ''x'', ''0''', '22023'), ('repeat(''x'', 500), repeat(''y'', 523)', 'ok'),
                          ('repeat(''x'', 500), repeat(''y'', 524)', '22023')) AS v (call, expected),
                  pg_temp.state_of(format('SELECT idem_consume(%s)', call)) AS state
            WHERE state <> expected), NULL, 'bad_arguments');
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ SELECT idem_consume('billing', 'inbox:new') $$), '25006', 'new_message_in_a_read_only_transaction');
SELECT is(idem_consume('billing', 'inbox:1'), false, 'seen_message_in_a_read_only_transaction');
ROLLBACK;

-- The owner of the scope.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_user;
CREATE ROLE tap_owner;
SELECT idem_grant('tap_user');
SELECT idem_scope_set('inbox', owner => 'tap_owner');
SELECT is(pg_temp.state_as('tap_user', $$ SELECT idem.idem_consume('billing', 'inbox:1') $$), '42501', 'inbox_of_another_owner');
ROLLBACK;
SELECT idem_consume('billing', 'inbox:1'); -- reads catalogs again after the grants, and tidies up their pages as any SELECT does
SELECT is(pg_temp.least_wal_records($$ SELECT idem_consume('billing', 'inbox:1') $$), 0::bigint, 'duplicates_do_not_write');

CALL pg_temp.clean('inbox');
SELECT * FROM finish();
