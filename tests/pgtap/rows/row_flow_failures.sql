-- Errors in the middle of a row flow, tables made to deceive one, and roles that try to get more out of it than they may.
\ir ../include/helpers.psql
SELECT plan(29);
CALL pg_temp.clean('failures:');
CREATE SCHEMA failures;

-- An error inside a subtransaction of idem's own ends that one and no other.
CREATE TABLE failures.notes (note text);
CREATE TABLE failures.checked (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text UNIQUE, n int);
CREATE FUNCTION failures.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.n < 0 THEN RAISE EXCEPTION 'negative' USING ERRCODE = 'P0007'; END IF;
    IF NEW.n = 7 AND pg_trigger_depth() = 1 AND EXISTS (SELECT FROM failures.checked WHERE v = lower(NEW.v)) THEN
        RAISE EXCEPTION 'seven' USING ERRCODE = 'P0008';
    END IF;
    NEW.v := lower(NEW.v);
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON failures.checked FOR EACH ROW EXECUTE FUNCTION failures.refuse();

CREATE PROCEDURE pg_temp.fail_inside(statement text, INOUT state text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO failures.notes VALUES ('before');
    BEGIN
        INSERT INTO failures.notes VALUES ('must vanish');
        EXECUTE statement;
        state := 'ok';
    EXCEPTION WHEN OTHERS THEN
        state := SQLSTATE;
    END;
    INSERT INTO failures.notes VALUES ('after');
END $$;

CALL pg_temp.fail_inside($$ SELECT guarded_insert('failures.checked', '{"v": "a", "n": -1}', '{v}') $$, NULL) \gset
SELECT is(:'state'::text, 'P0007', 'error_of_a_trigger_that_is_asked_beforehand_passes');
SELECT is((SELECT string_agg(note, ', ') FROM failures.notes), 'before, after', 'its_handler_undoes_what_it_should');
SELECT is((SELECT outcome FROM guarded_insert('failures.checked', '{"v": "A", "n": 1}', '{v}')), 'inserted', 'and_the_session_goes_on');
TRUNCATE failures.notes;
CALL pg_temp.fail_inside($$ SELECT unique_insert('failures.checked', '{"v": "A", "n": 7}', '{v}') $$, NULL) \gset
SELECT is(:'state'::text, 'P0008', 'error_of_unique_insert_passes');
SELECT is((SELECT string_agg(note, ', ') FROM failures.notes), 'before, after', 'here_too');

TRUNCATE failures.notes;
CREATE INDEX failing ON idem.idem_keys ((1 / (length(key) - 17)));
CALL pg_temp.fail_inside($$ SELECT idem_claim_many(ARRAY['failures:first', 'failures:17 bytes']) $$, NULL) \gset
DROP INDEX idem.failing;
SELECT is(:'state'::text, '22012', 'error_in_a_batch_of_claims_passes');
SELECT is((SELECT string_agg(note, ', ') FROM failures.notes), 'before, after', 'and_ends_no_more_than_its_own');
SELECT is(idem_claim('failures:first'), true, 'nothing_of_the_batch_is_left');

-- Indexes that seem to be a key.
CREATE TABLE failures.twice (a text NOT NULL, b int NOT NULL, n int);
CREATE UNIQUE INDEX ON failures.twice (a COLLATE "C", a COLLATE "default");
INSERT INTO failures.twice VALUES ('x', 1, 0);
SELECT is(pg_temp.state_of($$ SELECT conditional_update('failures.twice', '{"a": "x", "b": 999}', '{"n": 0}', '{"n": 1}') $$), '42P10',
    'index_that_names_a_column_twice_is_no_key_of_two');
CREATE INDEX ON failures.twice (a, a);
SELECT is(pg_temp.state_of($$ SELECT guarded_insert('failures.twice', '{"a": "x", "b": 1}', '{a,b}') $$), '42P10', 'nor_does_it_begin_with_two');

CREATE TABLE failures.deferred (a int NOT NULL UNIQUE DEFERRABLE, b text, CONSTRAINT immediate UNIQUE (a));
SELECT is((SELECT outcome FROM unique_insert('failures.deferred', '{"a": 1}', '{a}')) || ', '
       || (SELECT outcome FROM unique_insert('failures.deferred', '{"a": 1}', '{a}')), 'inserted, duplicate', 'deferrable_twin_is_left_aside');
CREATE TABLE failures.patterns (a text NOT NULL);
CREATE UNIQUE INDEX ON failures.patterns (a text_pattern_ops);
CREATE UNIQUE INDEX ON failures.patterns (a COLLATE "C");
SELECT is((SELECT outcome FROM unique_insert('failures.patterns', '{"a": "x"}', '{a}')) || ', '
       || (SELECT outcome FROM unique_insert('failures.patterns', '{"a": "x"}', '{a}')), 'inserted, duplicate', 'operator_class_and_collation_of_the_index');
CREATE TABLE failures.located (a int, k bigint GENERATED ALWAYS AS (a + tableoid::bigint) STORED NOT NULL UNIQUE);
SELECT is((SELECT outcome FROM unique_insert('failures.located', '{"a": 1}', '{k}')) || ', '
       || (SELECT outcome FROM unique_insert('failures.located', '{"a": 1}', '{k}')), 'inserted, duplicate', 'column_generated_from_the_tables_oid');

-- A guard made by hand that fires only now and then is none.
CREATE TABLE failures.partly (id int PRIMARY KEY, n int, version bigint NOT NULL DEFAULT 1);
INSERT INTO failures.partly VALUES (1, 0);
CREATE TRIGGER mine BEFORE UPDATE OF id ON failures.partly FOR EACH ROW EXECUTE FUNCTION idem_version_guard('version');
SELECT is(pg_temp.state_of($$ SELECT optimistic_update('failures.partly', '{"id": 1}', 1, '{"n": 1}') $$), '55000', 'partial_guard_does_not_count');
SELECT optimistic_enable('failures.partly');
UPDATE failures.partly SET n = 1;
SELECT is((SELECT version FROM failures.partly), 2::bigint, 'enabling_makes_a_whole_one');

-- Statements that a change of the table made useless are freed, also within one transaction.
CREATE TABLE failures.changing (id int PRIMARY KEY, n int);
INSERT INTO failures.changing VALUES (1, 0);
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 50 LOOP
    PERFORM conditional_adjust('failures.changing', '{"id": 1}', 'n', 1);
    EXECUTE 'ALTER TABLE failures.changing ALTER n SET STATISTICS ' || i;
END LOOP; END $$;
SELECT count(*) AS statements FROM pg_backend_memory_contexts WHERE name = 'idem row statement' \gset
COMMIT;
SELECT cmp_ok(:statements, '<', 30, 'useless_statements_are_freed');
SELECT is((SELECT n FROM failures.changing), 50, 'and_none_was_lost');

-- Every step with empty caches: the server builds what it knows of a table anew all the time. Only in a server made for tests.
SELECT EXISTS (SELECT FROM pg_settings WHERE name = 'debug_discard_caches' AND max_val <> '0') AS can_discard \gset
CREATE TABLE failures.forgetful (id int PRIMARY KEY, note text UNIQUE NOT NULL, n int);
SELECT optimistic_enable('failures.forgetful', 'a version with a long name');
INSERT INTO failures.forgetful VALUES (1, 'a', 0);
\if :can_discard
SET debug_discard_caches = 1;
\endif
SELECT is((SELECT outcome FROM optimistic_update('failures.forgetful', '{"id": 1}', 1, '{"n": 1}')), 'updated', 'optimistic_update_with_empty_caches');
SELECT is((SELECT outcome FROM unique_insert('failures.forgetful', '{"id": 2, "note": "a"}', '{note}')), 'duplicate', 'unique_insert_with_empty_caches');
BEGIN;
SELECT is((SELECT string_agg(outcome, ' ') FROM pessimistic_lock_many('failures.forgetful', ARRAY['{"note": "a"}', '{"id": 3}']::jsonb[])),
    'locked not_found', 'pessimistic_lock_many_with_empty_caches');
COMMIT;
SELECT is(pg_temp.state_of($$ SELECT optimistic_disable('failures.forgetful') $$), 'ok', 'optimistic_disable_with_empty_caches');
\if :can_discard
RESET debug_discard_caches;
\endif

-- Roles.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_mallory;
GRANT USAGE, CREATE ON SCHEMA failures TO tap_mallory;
SELECT idem_grant('tap_mallory');
SELECT idem_machine_define('failures:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');

-- What looks at the rows of her table must not run her code as an operator, nor as herself and put something off.
SET LOCAL ROLE tap_mallory;
CREATE TABLE failures.flag (x int);
CREATE FUNCTION failures.boom() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE tap_mallory CREATEDB; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER boom AFTER INSERT ON failures.flag DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION failures.boom();
CREATE FUNCTION failures.volatile_one() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN INSERT INTO failures.flag VALUES (1); RETURN 1; END $$;
CREATE FUNCTION failures.evil(x int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN IF current_setting('failures.armed', true) = 'yes' THEN RETURN failures.volatile_one(); END IF; RETURN 1; END $$;
CREATE TABLE failures.bait (id int PRIMARY KEY, s text);
CREATE STATISTICS failures.evil_statistics ON (failures.evil(1)), s FROM failures.bait;
SELECT idem_machine_attach('failures.bait', 's', 'failures:m');
-- And a guard by hand on a column that can hold no state.
CREATE TABLE failures.numbers (id int PRIMARY KEY, n int);
CREATE TRIGGER hand AFTER INSERT OR UPDATE ON failures.numbers FOR EACH ROW EXECUTE FUNCTION idem_state_guard('failures:m', 'n', 'no log', 'valid');
RESET ROLE;
-- The server would fold such expressions if it planned a statement on the table.
SET LOCAL failures.armed = 'yes';
SELECT pg_temp.state_of($$ SELECT idem_machine_define('failures:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}') $$) AS armed \gset
SET CONSTRAINTS ALL IMMEDIATE;
SELECT rolcreatedb AS promoted FROM pg_roles WHERE rolname = 'tap_mallory' \gset
SET LOCAL failures.armed = 'no';
SELECT pg_temp.state_of($$ SELECT idem_machine_define('failures:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}') $$) AS unarmed \gset
SELECT pg_temp.state_as('tap_mallory', $$ INSERT INTO failures.numbers VALUES (1, 1) $$) AS guarded_number \gset

-- What she may not read she is not told.
CREATE TABLE failures.secret (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner name DEFAULT current_user, ssn text);
CREATE INDEX ON failures.secret (ssn);
INSERT INTO failures.secret (owner, ssn) VALUES ('boss', '123-45');
GRANT TRIGGER ON failures.secret TO tap_mallory;
CREATE FUNCTION pg_temp.detail_as_mallory(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    told text;
BEGIN
    SET LOCAL ROLE tap_mallory;
    BEGIN
        EXECUTE statement;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS told = PG_EXCEPTION_DETAIL;
    END;
    RESET ROLE;
    RETURN told;
END $$;
SELECT pg_temp.detail_as_mallory($$ SELECT idem.idem_machine_attach('failures.secret', 'ssn', 'failures:m') $$) AS blind \gset
GRANT SELECT ON failures.secret TO tap_mallory;
SELECT pg_temp.detail_as_mallory($$ SELECT idem.idem_machine_attach('failures.secret', 'ssn', 'failures:m') $$) AS seeing \gset
ALTER TABLE failures.secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON failures.secret FOR SELECT USING (owner = current_user);
SELECT pg_temp.detail_as_mallory($$ SELECT idem.idem_machine_attach('failures.secret', 'ssn', 'failures:m') $$) AS secured \gset
SELECT pg_temp.state_as('tap_mallory', $$ SELECT idem.guarded_insert('failures.secret', '{"ssn": "123-45"}', '{ssn}') $$) AS there,
       pg_temp.state_as('tap_mallory', $$ SELECT idem.guarded_insert('failures.secret', '{"ssn": "999-99"}', '{ssn}') $$) AS not_there \gset
ROLLBACK;
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));

SELECT is(:'armed'::text, 'ok', 'code_of_the_owner_does_not_run_and_is_no_veto');
SELECT is(:'promoted'::boolean, false, 'nor_does_it_gain_anything');
SELECT is(:'unarmed'::text, 'ok', 'guard_made_by_hand_is_no_veto');
SELECT is(:'guarded_number'::text, '42804', 'but_refuses_its_own_rows');
SELECT is(:'blind'::text, '', 'attach_tells_no_values_to_who_cannot_read_the_column');
SELECT is(:'seeing'::text, 'Column "ssn" holds: "123-45".', 'but_to_who_can');
SELECT is(:'secured'::text, '', 'nor_past_row_security');
SELECT is(:'there' || ' ' || :'not_there', '42501 42501', 'guarded_insert_tells_nothing_of_hidden_rows_to_who_may_not_insert');

CALL pg_temp.clean('failures:');
SET client_min_messages = warning;
DROP SCHEMA failures CASCADE;
SELECT * FROM finish();
