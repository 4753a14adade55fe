-- What the functions of locks refuse. Each test lists the calls that answered otherwise.
\ir ../include/helpers.psql
SELECT plan(31);
CALL pg_temp.clean('lockerr:');

-- %1$s is the name, %2$s the scope.
CREATE TEMP TABLE named (call text);
INSERT INTO named VALUES
    ('idem_lock(%1$s, scope => %2$s)'),
    ('idem_lock(%1$s, ''1 s'', ''o'', NULL, scope => %2$s)'),
    ('idem_lock_renew(%1$s, 1, scope => %2$s)'),
    ('idem_unlock(%1$s, 1, %2$s)'),
    ('idem_assert_fence(%1$s, 1, %2$s)');
CREATE FUNCTION pg_temp.others(expected text, name text, scope text = '''''') RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', call, state), '; ')
      FROM named, pg_temp.state_of('SELECT * FROM idem.' || format(call, name, scope)) AS state
     WHERE state <> expected
$$;
CREATE FUNCTION pg_temp.message_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;

SELECT is(pg_temp.others('22004', 'NULL'), NULL, 'null_name');
SELECT is(pg_temp.others('22023', ''''''), NULL, 'empty_name');
SELECT is(pg_temp.others('22023', 'repeat(''x'', 1025)'), NULL, 'name_of_1025_bytes');
SELECT is(pg_temp.others('22023', 'repeat(''ż'', 512) || ''x'''), NULL, 'name_of_513_letters_and_1025_bytes');
SELECT is((SELECT string_agg(call, '; ') FROM named WHERE pg_temp.state_of('SELECT * FROM idem.' || format(call, '''lockerr:null''', 'NULL')) NOT IN ('ok', 'ID001')),
    NULL, 'null_scope_is_not_given');
SELECT is(pg_temp.others('22023', '''k''', 'repeat(''x'', 256)'), NULL, 'scope_of_256_bytes');
SELECT is(pg_temp.message_of($$ SELECT idem_lock(NULL) $$), 'name must not be null', 'message_speaks_of_a_name');
SELECT is(pg_temp.message_of($$ SELECT idem_lock('lockerr:anybody', owner => '') $$), 'owner must not be empty', 'owner_has_a_name');
SELECT is(pg_temp.message_of($$ SELECT idem_lock('') $$), 'name must not be empty', 'also_of_an_empty_one');
SELECT is(pg_temp.message_of($$ SELECT idem_unlock(repeat('x', 1025), 1) $$), 'name is too long', 'also_of_a_long_one');
SELECT is(idem_unlock('lockerr:' || repeat('ż', 508), idem_lock('lockerr:' || repeat('ż', 508))), true, 'name_of_1024_bytes');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_lock_renew(''lockerr:k'', NULL)', 'idem_unlock(''lockerr:k'', NULL)',
                         'idem_assert_fence(''lockerr:k'', NULL)']) AS call, pg_temp.state_of('SELECT ' || call) AS state
      WHERE state <> '22004'),
    NULL, 'null_fence');

-- Durations.
SELECT is(
    (SELECT string_agg(format('%s %s: %s', call, lease, state), '; ')
       FROM unnest(ARRAY['idem_lock(''lockerr:k'', %L)', 'idem_lock_renew(''lockerr:k'', 1, %L)']) AS call,
            unnest(ARRAY['0', '-1 s', '-1 day', '1 month -31 days', '299000 years', '170000000 years']) AS lease,
            pg_temp.state_of('SELECT ' || format(call, lease)) AS state
      WHERE state <> '22023'),
    NULL, 'lease_that_is_not_positive_or_out_of_range');
SELECT is(pg_temp.message_of($$ SELECT idem_lock('lockerr:k', '0') $$), 'lease must be positive', 'message_speaks_of_a_lease');
SELECT is(pg_temp.state_of($$ SELECT idem_lock('lockerr:k', wait => '-1 ms') $$), '22023', 'negative_wait');
SELECT is(pg_temp.state_of($$ SELECT idem_lock('lockerr:k', wait => '299000 years') $$), '22023', 'wait_out_of_range');
SET idem.max_lease = 2147483647;
SELECT is(pg_temp.state_of($$ SELECT idem_lock('lockerr:long', '68 years') $$), 'ok', 'very_long_lease');
RESET idem.max_lease;
SELECT is((SELECT count(*) FROM idem_locks WHERE key = 'lockerr:k'), 0::bigint, 'what_is_refused_locks_nothing');

-- Scopes of others, unknown scopes, functions that were not granted.
SELECT idem_lock('lockerr:owned', '1 hour') AS unowned, idem_lock('lockerr:owned', '1 hour', scope => 'lockerr:s') AS owned \gset
BEGIN;
CREATE ROLE tap_locker;
CREATE ROLE tap_tenant;
GRANT USAGE ON SCHEMA idem TO tap_locker;
CREATE FUNCTION pg_temp.surprises(expected text, scope text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', call, state), '; ')
      FROM named, pg_temp.state_as('tap_locker', 'SELECT * FROM idem.' || format(call, '''lockerr:owned''', quote_literal(scope))) AS state
     WHERE state <> expected
$$;
SELECT is(pg_temp.surprises('42501', ''), NULL, 'role_without_grants_may_not_lock');
SELECT idem_grant('tap_locker');
SELECT idem_scope_set('lockerr:s', owner => 'tap_tenant');
SELECT is(pg_temp.surprises('42501', 'lockerr:s'), NULL, 'scope_of_another_owner');
SELECT is(pg_temp.state_as('tap_locker', $$ SELECT idem.idem_lock('lockerr:granted') $$), 'ok', 'granted_role_may_lock');
GRANT tap_tenant TO tap_locker;
SELECT is(pg_temp.state_as('tap_locker', format($$ SELECT idem.idem_assert_fence('lockerr:owned', %s, 'lockerr:s') $$, :owned)), 'ok',
    'member_of_the_owner_may_use_the_scope');
SET LOCAL idem.require_registered_scope = on;
SELECT is(pg_temp.others('42704', '''k''', '''lockerr:unknown'''), NULL, 'unknown_scope_where_they_must_be_registered');
ROLLBACK;

-- Locks are for transactions that may write, also where nothing would be written.
BEGIN READ ONLY;
SELECT is(pg_temp.others('25006', '''lockerr:none'''), NULL, 'read_only_transaction_and_a_free_lock');
SELECT is(pg_temp.others('25006', '''lockerr:owned'''), NULL, 'read_only_transaction_and_a_taken_lock');
COMMIT;

-- Cancelled.
SET statement_timeout = '2 s'; -- for the wait, and not for what comes before it
SELECT is(pg_temp.state_of($$ SELECT idem_lock('lockerr:owned', wait => '10 min') $$), '57014', 'statement_timeout_ends_the_wait');
RESET statement_timeout;
SET lock_timeout = '20 ms';
SELECT is(idem_lock('lockerr:owned', wait => '100 ms'), NULL, 'wait_for_a_lease_is_no_lock_wait');
RESET lock_timeout;
SELECT is((SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), 0::bigint, 'cancelled_wait_leaves_the_queue');

-- The table must be the one that was installed.
BEGIN;
ALTER TABLE idem_locks RENAME TO idem_locks_of_old;
CREATE TABLE idem.idem_locks (LIKE idem.idem_locks_of_old INCLUDING ALL);
SELECT is(pg_temp.others('55000', '''lockerr:k'''), NULL, 'replaced_table');
ROLLBACK;
BEGIN;
ALTER TABLE idem_locks ADD added int;
SELECT is(pg_temp.others('55000', '''lockerr:k'''), NULL, 'altered_table');
ROLLBACK;
SELECT is(idem_unlock('lockerr:owned', :unowned), true, 'everything_works_after_the_rollbacks');

CALL pg_temp.clean('lockerr:');
SELECT * FROM finish();
