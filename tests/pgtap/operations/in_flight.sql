-- idem_in_flight in one session: what is in flight and what is not, whose scopes are shown, odd keys. Several sessions are in
-- tests/isolation/specs/in_flight_list.spec.
\ir ../include/helpers.psql
SELECT plan(15);
CALL pg_temp.clean('flight:');

CREATE FUNCTION pg_temp.shown(what text DEFAULT '%') RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws(' ', substr(key, 8), mode, CASE WHEN pid = pg_backend_pid() THEN 'here' ELSE pid::text END), ', ' ORDER BY key COLLATE "C")
      FROM idem_in_flight() WHERE starts_with(key, 'flight:') AND key LIKE 'flight:' || what
$$;

SELECT is(pg_temp.shown(), NULL, 'nothing_in_flight');
SELECT idem_claim('flight:done');
SELECT is(pg_temp.shown(), NULL, 'committed_transactional_claim_is_done');

BEGIN;
SELECT idem_claim('flight:own');
SAVEPOINT s;
SELECT idem_claim('flight:sub');
SELECT is(pg_temp.shown(), 'own transactional here, sub transactional here', 'own_claims_are_shown');
ROLLBACK TO s;
SELECT is(pg_temp.shown(), 'own transactional here', 'but_not_those_rolled_back');
SELECT idem_complete('flight:own', '{"a": 1}');
SELECT is(pg_temp.shown(), 'own transactional here', 'once_however_many_versions_it_has');
SELECT idem_forget('flight:done');
ROLLBACK;

SELECT fence AS live FROM idem_begin('flight:live', lease => '1 hour') \gset
SELECT outcome FROM idem_begin('flight:lapsed', lease => '1 us');
SELECT outcome FROM idem_begin('flight:void', ttl => '1 us', lease => '1 us');
SELECT idem_scope_set('flight:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('flight:doubt', ttl => '1 us', lease => '1 us', scope => 'flight:manual');
SELECT fence AS released FROM idem_begin('flight:released', lease => '1 hour') \gset
SELECT idem_release('flight:released', :released);
SELECT is(pg_temp.shown(), 'doubt leased, lapsed leased, live leased', 'leases_until_they_are_completed_released_or_void');
SELECT idem_try_claim('flight:doubt', scope => 'flight:manual');
SELECT is(pg_temp.shown('doubt'), 'doubt leased', 'doubt_that_was_written_down');
SELECT is((SELECT lease_until - since FROM idem_in_flight() WHERE key = 'flight:live'), '1 hour', 'since_and_until');
VACUUM (FREEZE) idem_keys;
SELECT is(pg_temp.shown(), 'doubt leased, lapsed leased, live leased', 'leases_on_frozen_pages');
SELECT idem_complete('flight:live', '1', fence => :live);
SELECT is(pg_temp.shown('live'), NULL, 'completed_lease');

-- A long key beside a long owner is stored compressed.
SELECT outcome FROM idem_begin('flight:' || repeat('k', 1000), lease => '1 hour',
    owner => (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 60) i));
SELECT is((SELECT length(key) FROM idem_in_flight() WHERE starts_with(key, 'flight:k')), 1007, 'compressed_key');

-- Owned scopes.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_flight_tenant;
CREATE ROLE tap_flight_operator;
SELECT idem_grant('tap_flight_operator', operator => true);
SELECT outcome FROM idem_begin('flight:owned', lease => '1 hour', scope => 'flight:owned');
SELECT idem_scope_set('flight:owned', owner => 'tap_flight_tenant');
CREATE FUNCTION pg_temp.count_as(who name) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', who);
    SELECT count(*) INTO found FROM idem.idem_in_flight() WHERE key = 'flight:owned';
    RESET ROLE;
    RETURN found;
END $$;
SELECT is(pg_temp.count_as('tap_flight_operator'), 0::bigint, 'operator_does_not_see_an_owned_scope');
GRANT tap_flight_tenant TO tap_flight_operator;
SELECT is(pg_temp.count_as('tap_flight_operator'), 1::bigint, 'unless_with_the_owners_privileges');
ROLLBACK;

BEGIN READ ONLY;
SELECT is(pg_temp.shown('doubt'), 'doubt leased', 'in_a_read_only_transaction');
ROLLBACK;
SELECT pg_temp.wal_records('SELECT * FROM idem_in_flight()') AS first_look \gset
SELECT is(pg_temp.least_wal_records('SELECT * FROM idem_in_flight()'), 0::bigint, 'writes_nothing');
CALL pg_temp.clean('flight:');
SELECT * FROM finish();
