-- Answering about a key that was committed before assigns no xid, writes no tuple and locks no row.
\ir ../include/helpers.psql
SELECT plan(16);
CALL pg_temp.clean('quiet:');

BEGIN;
SELECT outcome FROM idem_begin('quiet:done', idem_fingerprint('1'));
SELECT idem_complete('quiet:done', '"x"', 200);
COMMIT;
SELECT * FROM idem_claim_many('{quiet:m1,quiet:m2,quiet:m3}');
SELECT outcome FROM idem_execute('quiet:executed', 'SELECT 1 AS a');
SELECT fence FROM idem_begin('quiet:live', lease => '1 hour', owner => 'me') \gset
SELECT fence AS finished FROM idem_begin('quiet:finished', lease => '1 hour') \gset
SELECT idem_complete('quiet:finished', '"y"', fence => :finished);
SELECT idem_scope_set('quiet:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('quiet:doubt', lease => '1 ms', scope => 'quiet:manual');
CALL pg_temp.sleep('5 ms');
-- The first to ask puts the key in doubt; after that it is an answer like any other.
SELECT idem_try_claim('quiet:doubt', scope => 'quiet:manual');
SELECT set_config('tap.fence', :'finished', false);

CREATE TEMP TABLE quiet_call (name text, call text);
INSERT INTO quiet_call VALUES
    ('claim', 'SELECT idem_claim(''quiet:done'')'),
    ('try', 'SELECT idem_try_claim(''quiet:done'')'),
    ('claim_many', 'SELECT * FROM idem_claim_many(''{quiet:m1,quiet:done,quiet:m3,quiet:m2,quiet:m1}'')'),
    ('replay', 'SELECT * FROM idem_begin(''quiet:done'', idem_fingerprint(''1''))'),
    ('leased_replay', 'SELECT * FROM idem_begin(''quiet:done'', lease => ''1 hour'', owner => ''me'', wait => ''10 min'')'),
    ('mismatch', 'SELECT * FROM idem_begin(''quiet:done'', idem_fingerprint(''2''))'),
    ('in_flight', 'SELECT * FROM idem_begin(''quiet:live'', lease => ''1 hour'', owner => ''other'')'),
    ('in_flight_of_a_waiter', 'SELECT * FROM idem_begin(''quiet:live'', wait => ''20 ms'')'),
    ('try_in_flight', 'SELECT idem_try_claim(''quiet:live'')'),
    ('in_doubt', 'SELECT * FROM idem_begin(''quiet:doubt'', lease => ''1 hour'', scope => ''quiet:manual'')'),
    ('execute_replay', 'SELECT * FROM idem_execute(''quiet:executed'', ''SELECT 1 AS a'')'),
    ('equal_completion', 'SELECT idem_complete(''quiet:finished'', ''"y"'', fence => current_setting(''tap.fence'')::bigint)'),
    ('lookup', 'SELECT * FROM idem_lookup(''quiet:done'')');

CREATE TEMP TABLE rows_before AS
    SELECT ctid AS place, xmin::text AS made_by, xmax::text AS locked_by, scope, key FROM idem_keys WHERE starts_with(key, 'quiet:');

-- This session's count of tuples written to idem's tables; earlier transactions' may still be in it.
CREATE FUNCTION pg_temp.written() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_xact_user_tables WHERE schemaname = 'idem'
$$;

-- pgTAP itself writes, so each call is looked at in a transaction of its own and judged afterwards.
CREATE TEMP TABLE seen (name text, xid xid8, written bigint);
CREATE PROCEDURE pg_temp.look() LANGUAGE plpgsql AS $$
DECLARE
    quiet record;
    before bigint;
    assigned xid8;
    changed bigint;
BEGIN
    FOR quiet IN SELECT * FROM quiet_call LOOP
        COMMIT;
        before := pg_temp.written();
        EXECUTE quiet.call;
        assigned := pg_current_xact_id_if_assigned();
        changed := pg_temp.written() - before;
        INSERT INTO seen VALUES (quiet.name, assigned, changed);
    END LOOP;
    COMMIT;
END $$;
CALL pg_temp.look();

SELECT ok(s.xid IS NULL AND s.written = 0, format('%s: xid %s, %s tuples', c.name, s.xid, s.written))
  FROM quiet_call c LEFT JOIN seen s USING (name);
SELECT is(
    (SELECT string_agg(b.key, ', ')
       FROM rows_before b LEFT JOIN idem_keys k USING (scope, key)
      WHERE (b.place, b.made_by, b.locked_by) IS DISTINCT FROM (k.ctid, k.xmin::text, k.xmax::text)),
    NULL, 'rows_stay_where_they_are_and_are_not_locked');

-- The count does notice a write.
BEGIN;
SELECT pg_temp.written() AS before \gset
SELECT idem_claim('quiet:noticed');
SELECT pg_temp.written() AS after \gset
COMMIT;
SELECT is(:after - :before, 1, 'claim_writes_one_tuple');

-- The same in a transaction that does write: the duplicate adds nothing.
BEGIN;
SELECT idem_claim('quiet:new');
SELECT pg_temp.written() AS before \gset
SELECT idem_claim('quiet:done'), idem_claim('quiet:new'), idem_try_claim('quiet:live');
SELECT outcome FROM idem_begin('quiet:done', idem_fingerprint('2'));
SELECT pg_temp.written() AS after \gset
COMMIT;
SELECT is(:after - :before, 0, 'duplicates_beside_a_claim_write_nothing');

CALL pg_temp.clean('quiet:');
SELECT * FROM finish();
