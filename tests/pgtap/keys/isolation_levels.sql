-- REPEATABLE READ and SERIALIZABLE, as far as one session shows them.
\ir ../include/helpers.psql
SELECT plan(22);
CALL pg_temp.clean('level:');

CREATE FUNCTION pg_temp.prepare(level text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM idem.idem_claim(format('level:%s:done', level));
    PERFORM idem.idem_claim(format('level:%s:expired', level), '1 ms');
    PERFORM FROM idem.idem_begin(format('level:%s:lapsed', level), lease => '1 ms');
    PERFORM FROM idem.idem_begin(format('level:%s:live', level), lease => '1 hour');
END $$;
SELECT pg_temp.prepare('repeatable read'), pg_temp.prepare('serializable');
CALL pg_temp.sleep('5 ms');

CREATE FUNCTION pg_temp.key(name text) RETURNS text LANGUAGE sql AS $$
    SELECT format('level:%s:%s', current_setting('transaction_isolation'), name)
$$;
CREATE FUNCTION pg_temp.walk() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT is(idem_claim(pg_temp.key('done')), false, pg_temp.key('committed_key_is_a_duplicate'));
    RETURN NEXT is(idem_claim(pg_temp.key('new')), true, pg_temp.key('fresh_key_is_new'));
    RETURN NEXT is(idem_claim(pg_temp.key('new')), false, pg_temp.key('own_claim_is_a_duplicate'));
    RETURN NEXT lives_ok($sql$ SELECT idem_complete(pg_temp.key('new'), '"x"') $sql$, pg_temp.key('own_claim_takes_a_response'));
    RETURN NEXT is((SELECT response FROM idem_begin(pg_temp.key('new'))), '"x"', pg_temp.key('own_response_is_seen'));
    RETURN NEXT is(idem_claim(pg_temp.key('expired'), '1 hour'), true, pg_temp.key('expired_key_is_new'));
    RETURN NEXT is((SELECT outcome FROM idem_begin(pg_temp.key('lapsed'), lease => '1 hour')), 'taken_over',
                   pg_temp.key('lapsed_lease_is_taken_over'));
    RETURN NEXT is(idem_try_claim(pg_temp.key('live')), 'in_flight', pg_temp.key('in_flight_is_no_error'));
    RETURN NEXT is((SELECT string_agg(new, '') FROM idem_claim_many(ARRAY[pg_temp.key('done'), pg_temp.key('many')]) new), pg_temp.key('many'),
        pg_temp.key('many_keys'));
    RETURN NEXT is((SELECT response FROM idem_execute(pg_temp.key('execute'), 'SELECT 1 AS a')), '[{"a": 1}]', pg_temp.key('execute'));
    RETURN NEXT is(idem_hit(pg_temp.key('hit')), 1::bigint, pg_temp.key('hit'));
END $$;

BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_temp.walk();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT pg_temp.walk();
COMMIT;

CALL pg_temp.clean('level:');
SELECT * FROM finish();
