-- idem_begin with wait, on leases. Uncommitted holders are in prepared_holder.sql and in the isolation specs.
\ir ../include/helpers.psql
SELECT plan(13);
CALL pg_temp.clean('wait:');
SET statement_timeout = '10 s';

CREATE FUNCTION pg_temp.timed(statement text, OUT result text, OUT took float8) LANGUAGE plpgsql AS $$
DECLARE
    start timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement INTO result;
    took := extract(epoch FROM clock_timestamp() - start);
EXCEPTION WHEN query_canceled OR lock_not_available THEN
    result := SQLSTATE;
    took := extract(epoch FROM clock_timestamp() - start);
END $$;
-- What needs no waiting does not wait: the fastest of three, as the machine may be busy.
CREATE FUNCTION pg_temp.fastest(statement text, OUT result text, OUT took float8) LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT t.result, ' '), min(t.took) FROM generate_series(1, 3), pg_temp.timed(statement) AS t
$$;

SELECT outcome FROM idem_begin('wait:live', lease => '1 hour', owner => 'holder');
SELECT ok(result = 'in_flight' AND took < 1, format('no_wait_answers_at_once: %s, %s s', result, took))
  FROM pg_temp.fastest($$ SELECT outcome FROM idem_begin('wait:live') $$);
SELECT ok(result = 'in_flight' AND took BETWEEN 0.2 AND 3, format('wait_is_used_up: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:live', wait => '200 ms') $$);
SELECT ok(result = 'in_flight' AND took BETWEEN 0.2 AND 3, format('wait_is_used_up_by_a_leased_begin: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:live', lease => '1 min', wait => '200 ms') $$);

SELECT lease_until AS ends FROM idem_begin('wait:ending', lease => '200 ms') \gset
SELECT ok(result = 'taken_over' AND clock_timestamp() > :'ends' AND took < 3, format('waiter_takes_the_lease_over_at_its_end: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:ending', lease => '200 ms', wait => '5 s') $$);
SELECT lease_until AS ends FROM idem_lookup('wait:ending') \gset
SELECT ok(result = 'taken_over' AND clock_timestamp() > :'ends' AND took < 3, format('null_wait_has_no_bound: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:ending', wait => '10 min') $$);

SELECT idem_claim('wait:expired', ttl => '1 ms');
CALL pg_temp.sleep('10 ms');
SELECT is((pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:expired', lease => '1 min', wait => '10 min') $$)).result, 'acquired', 'expired_key_is_not_waited_for');

SELECT idem_scope_set('wait:manual', on_lease_expiry => 'manual');
SELECT lease_until AS ends FROM idem_begin('wait:doubt', lease => '200 ms', scope => 'wait:manual') \gset
SELECT ok(result = 'in_doubt' AND clock_timestamp() > :'ends' AND took < 3, format('waiter_is_told_of_the_doubt_at_the_end: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:doubt', wait => '10 min', scope => 'wait:manual') $$);

-- What needs no waiting.
SELECT idem_claim('wait:done');
SELECT ok(result = 'completed' AND took < 1, format('completed_key_needs_no_wait: %s, %s s', result, took))
  FROM pg_temp.fastest($$ SELECT outcome FROM idem_begin('wait:done', wait => '10 min') $$);
SELECT ok(result = 'acquired' AND took < 1, format('owner_does_not_wait_for_itself: %s, %s s', result, took))
  FROM pg_temp.fastest($$ SELECT outcome FROM idem_begin('wait:live', lease => '1 hour', owner => 'holder', wait => '10 min') $$);
SELECT outcome FROM idem_begin('wait:other', idem_fingerprint('1'), lease => '1 hour');
SELECT ok(result = 'mismatch' AND took < 1, format('mismatch_needs_no_wait: %s, %s s', result, took))
  FROM pg_temp.fastest($$ SELECT outcome FROM idem_begin('wait:other', idem_fingerprint('2'), wait => '10 min') $$);
BEGIN;
SELECT outcome FROM idem_begin('wait:mine', lease => '1 hour', owner => 'me');
SELECT ok(result = 'in_flight' AND took < 1, format('own_transactions_lease_is_not_waited_for: %s, %s s', result, took))
  FROM pg_temp.fastest($$ SELECT outcome FROM idem_begin('wait:mine', lease => '1 hour', owner => 'other', wait => '10 min') $$);
ROLLBACK;

-- Every wait can be cancelled.
SET statement_timeout = '2 s';
SELECT ok(result = '57014' AND took < 5, format('statement_timeout_ends_the_wait: %s, %s s', result, took))
  FROM pg_temp.timed($$ SELECT outcome FROM idem_begin('wait:live', wait => '10 min') $$);
RESET statement_timeout;
SELECT is((SELECT outcome FROM idem_begin('wait:live')), 'in_flight', 'cancelled_wait_leaves_nothing_behind');

CALL pg_temp.clean('wait:');
SELECT * FROM finish();
