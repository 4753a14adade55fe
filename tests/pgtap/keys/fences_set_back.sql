-- Fences of a name grow though their generator was set back.
\ir ../include/helpers.psql
SELECT plan(2);
CALL pg_temp.clean('setback:');

-- Where the generator is behind a name's last fence, because somebody set it back, the name's fences grow all the same: taken
-- over, released, or with its row long expired. What the fences of the test leave behind goes with the file that RESTART makes.
SELECT idem_begin('setback:' || how, lease => '1 hour'), idem_lock('setback:' || how, '1 hour')
  FROM unnest('{lapsed,released,expired}'::text[]) AS how;
UPDATE idem_keys SET fence = 4102444800000000 WHERE key LIKE 'setback:%'; -- the year 2100
UPDATE idem_locks SET fence = 4102444800000000 WHERE key LIKE 'setback:%';
UPDATE idem_keys SET lease_until = created_at WHERE key = 'setback:lapsed';
UPDATE idem_locks SET lease_until = created_at WHERE key = 'setback:lapsed';
SELECT idem_release('setback:released', 4102444800000000), idem_unlock('setback:released', 4102444800000000);
UPDATE idem_keys SET lease_until = created_at, expires_at = created_at WHERE key = 'setback:expired';
UPDATE idem_locks SET lease_until = created_at, expires_at = created_at WHERE key = 'setback:expired';
CREATE FUNCTION pg_temp.fences_after_setting_back(name text, OUT key_fence bigint, OUT lock_fence bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM setval('idem_fence_high_water', 1);
    key_fence := (idem.idem_begin(name, lease => '1 hour')).fence;
    PERFORM setval('idem_fence_high_water', 1);
    lock_fence := idem.idem_lock(name, '1 hour');
END $$;
SELECT pg_advisory_lock(hashtext('idem pgtap tables'));
BEGIN;
ALTER SEQUENCE idem_fence_high_water RESTART;
SELECT is((SELECT string_agg(format('%s %s %s', how, key_fence > 4102444800000000, lock_fence > 4102444800000000), ', ')
             FROM unnest('{lapsed,released,expired}'::text[]) AS how, pg_temp.fences_after_setting_back('setback:' || how)),
          'lapsed t t, released t t, expired t t', 'fences_of_a_name_grow_though_the_generator_was_set_back');
ROLLBACK;
SELECT pg_advisory_unlock(hashtext('idem pgtap tables'));
DELETE FROM idem_locks WHERE key LIKE 'setback:%';
SELECT ok(last_value + log_cnt > 1, 'and_the_generator_is_where_it_was') FROM idem_fence_high_water;

CALL pg_temp.clean('setback:');
SELECT * FROM finish();
