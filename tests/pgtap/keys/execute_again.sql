-- idem_execute after something went wrong with the same statement, and statements that meddle with their own key.
\ir ../include/helpers.psql
SELECT plan(17);
CALL pg_temp.clean('again:');

-- A statement whose analysis failed once is analyzed anew, also behind a pooler, where the session lives on.
CREATE TABLE again_target (x int);
SELECT is((SELECT outcome::text FROM idem_execute('again:1', 'INSERT INTO again_target VALUES ($1)', '[1]')), 'acquired', 'at_first');
DROP TABLE again_target;
SELECT throws_ok($$ SELECT idem_execute('again:2', 'INSERT INTO again_target VALUES ($1)', '[1]') $$, '42P01', NULL, 'table_gone');
CREATE TABLE again_target (x text);
SELECT is((SELECT outcome::text FROM idem_execute('again:3', 'INSERT INTO again_target VALUES ($1)', '["one"]')), 'acquired',
    'table_is_back_with_another_type');
SELECT is((SELECT x FROM again_target), 'one', 'value_of_the_new_type');

-- The same within one transaction, where the failure is caught.
CREATE FUNCTION pg_temp.caught() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    DROP TABLE again_target;
    BEGIN
        PERFORM idem.idem_execute('again:4', 'INSERT INTO again_target VALUES ($1)', '[1]');
    EXCEPTION WHEN undefined_table THEN
        NULL;
    END;
    CREATE TABLE again_target (x int);
    SELECT outcome INTO answer FROM idem.idem_execute('again:4', 'INSERT INTO again_target VALUES ($1)', '[1]');
    RETURN answer;
END $$;
SELECT is(pg_temp.caught(), 'acquired', 'failure_caught_in_the_same_transaction');
DROP TABLE again_target;

-- A statement that failed is not kept, nor is the memory that it took.
CREATE FUNCTION pg_temp.run_long_statements(fail boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 20 LOOP
        BEGIN
            PERFORM idem.idem_execute('again:long' || i, format('SELECT 1 / $1::int AS a /* %s %s */', i, repeat('x', 100000)), jsonb_build_array((NOT fail)::int));
        EXCEPTION WHEN division_by_zero THEN
        END;
    END LOOP;
END $$;
CREATE FUNCTION pg_temp.bytes_of_statements() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(total_bytes)::bigint FROM pg_get_backend_memory_contexts()
     WHERE name IN ('idem plans', 'SPI Plan', 'CachedPlanSource', 'CachedPlanQuery', 'CachedPlan')
$$;
SELECT pg_temp.bytes_of_statements() AS before \gset
SELECT pg_temp.run_long_statements(true);
SELECT cmp_ok(pg_temp.bytes_of_statements() - :before, '<', 1000000::bigint, 'statements_that_failed_take_no_memory');
SELECT pg_temp.run_long_statements(false);
SELECT cmp_ok(pg_temp.bytes_of_statements() - :before, '>', 4000000::bigint, 'others_are_kept');

-- The statement's own key.
SELECT is((SELECT response FROM idem_execute('again:5', $$ SELECT idem_complete('again:5', '{"a": 1}')::text AS c $$)), '[{"c": "true"}]',
    'own_key_completed_within');
SELECT is((SELECT response FROM idem_lookup('again:5')), '[{"c": "true"}]', 'the_rows_are_the_response');
SELECT throws_ok($q$ SELECT idem_execute('again:6', $$ SELECT idem_forget('again:6') $$) $q$, 'ID001', NULL, 'own_key_forgotten_within');
SELECT is((SELECT count(*) FROM idem_lookup('again:6')), 0::bigint, 'nothing_of_it_stays');

-- Parameters mean what they mean to a client's PREPARE.
CREATE DOMAIN again_domain AS text NOT NULL;
CREATE TABLE again_domains (x again_domain);
SELECT throws_ok($$ SELECT idem_execute('again:7', 'INSERT INTO again_domains VALUES ($1)', '[null]') $$, '23502', NULL,
    'domain_refuses_null');
SELECT throws_ok($$ SELECT idem_execute('again:8', 'SELECT $1 IS NULL AS a, $1 + 1 AS b', '[1]') $$, '42P08', NULL, 'ambiguous_parameter');
DROP TABLE again_domains;
DROP DOMAIN again_domain;

-- A row lock is no holder.
SELECT is((SELECT outcome::text FROM idem_begin('again:9', lease => '1 ms')), 'acquired', 'leased');
SELECT pg_sleep(0.01);
BEGIN;
SELECT count(*) FROM (SELECT FROM idem_keys WHERE key = 'again:9' FOR UPDATE) locked;
SELECT is((SELECT outcome::text FROM idem_begin('again:9', lease => '1 s')), 'taken_over', 'own_row_lock_is_no_holder');
COMMIT;

-- Only a small first byte is a version: other 33-byte values are compared as they are.
BEGIN;
SELECT is((SELECT count(*) FROM (SELECT idem_begin('again:10', decode(repeat('20', 33), 'hex'))) first), 1::bigint, 'foreign_hash');
COMMIT;
SELECT is((SELECT outcome::text FROM idem_begin('again:10', decode(repeat('30', 33), 'hex'))), 'mismatch', 'foreign_hashes_differ');
CALL pg_temp.clean('again:');
SELECT * FROM finish();
