-- The row flows run as their caller: privileges on tables and columns, row-level security, read-only transactions, triggers and rules.
\ir ../include/row_flows.psql
SELECT plan(88);
DROP SCHEMA IF EXISTS row_privileges CASCADE;

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_stranger;
CREATE ROLE tap_rows;
CREATE ROLE tap_other;
CREATE ROLE tap_table_owner;
CREATE SCHEMA row_privileges;
GRANT USAGE ON SCHEMA idem, row_privileges TO tap_stranger, tap_rows, tap_other, tap_table_owner;
SELECT idem_grant('tap_rows');
SELECT idem_grant('tap_other');
SELECT idem_grant('tap_table_owner');

-- Each flow on a table that has an id, a note and a number.
CREATE TEMP TABLE flow (n int GENERATED ALWAYS AS IDENTITY, name text, call text);
INSERT INTO flow (name, call) VALUES
    ('optimistic',  'optimistic_update(''row_privileges.%s'', ''{"id": 1}'', 1, ''{"note": "new"}'')'),
    ('conditional', 'conditional_update(''row_privileges.%s'', ''{"id": 1}'', ''{"number": 5}'', ''{"note": "new"}'')'),
    ('adjust',      'conditional_adjust(''row_privileges.%s'', ''{"id": 1}'', ''number'', 1)'),
    ('lock',        'pessimistic_lock(''row_privileges.%s'', ''{"id": 1}'')'),
    ('lock_many',   'pessimistic_lock_many(''row_privileges.%s'', ARRAY[''{"id": 1}'']::jsonb[])'),
    ('unique',      'unique_insert(''row_privileges.%s'', ''{"id": 2, "note": "n"}'')'),
    ('guarded',     'guarded_insert(''row_privileges.%s'', ''{"id": 2, "note": "n"}'', ''{id}'')');
-- How each flow ends for a role, and undoes what it did.
CREATE FUNCTION pg_temp.ends(role name, target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
    answer jsonb;
    result text[];
BEGIN
    FOR one IN SELECT name, call FROM flow ORDER BY n LOOP
        BEGIN
            answer := pg_temp.answer_as(role, 'SELECT * FROM idem.' || format(one.call, target));
            RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDON';
        EXCEPTION WHEN SQLSTATE 'UNDON' THEN
            result := result || concat(coalesce(answer ->> 'outcome', answer #>> '{}'),
                (SELECT '(' || string_agg(name, ' ' ORDER BY name) || ')'
                   FROM jsonb_object_keys(nullif(answer -> 'row_data', 'null')) AS name));
        END;
    END LOOP;
    RETURN array_to_string(result, ' ');
END $$;
CREATE FUNCTION pg_temp.make(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE row_privileges.%I (id int PRIMARY KEY, note text, number int, secret text UNIQUE, '
        'version bigint NOT NULL DEFAULT 1)', name);
    EXECUTE format('INSERT INTO row_privileges.%I VALUES (1, ''old'', 5, ''secret'')', name);
    PERFORM idem.optimistic_enable(format('row_privileges.%I', name));
END $$;

-- The contract.
SELECT set_eq(
    $$ SELECT proname::text, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc
        WHERE pronamespace = 'idem'::regnamespace
        AND proname ~ '^(optimistic|conditional|pessimistic|unique_insert|guarded|idem_version_guard)' $$,
    $$ VALUES ('optimistic_enable', 'target regclass, version_column name DEFAULT ''version''::name', 'void'),
              ('optimistic_disable', 'target regclass', 'void'),
              ('optimistic_update', 'target regclass, key jsonb, expected_version bigint, changes jsonb, OUT outcome text, '
                  'OUT version bigint, OUT row_data jsonb', 'record'),
              ('conditional_update', 'target regclass, key jsonb, expected jsonb, changes jsonb, OUT outcome text, '
                  'OUT row_data jsonb', 'record'),
              ('conditional_adjust', 'target regclass, key jsonb, column_name name, delta numeric, minimum numeric DEFAULT 0, '
                  'maximum numeric DEFAULT NULL::numeric, OUT outcome text, OUT value numeric', 'record'),
              ('pessimistic_lock', 'target regclass, key jsonb, wait interval DEFAULT NULL::interval, OUT outcome text, '
                  'OUT row_data jsonb', 'record'),
              ('pessimistic_lock_many', 'target regclass, keys jsonb[], wait interval DEFAULT NULL::interval, '
                  'OUT outcome text, OUT row_data jsonb', 'SETOF record'),
              ('unique_insert', 'target regclass, new_row jsonb, conflict_columns name[] DEFAULT NULL::name[], '
                  'OUT outcome text, OUT row_data jsonb', 'record'),
              ('guarded_insert', 'target regclass, new_row jsonb, match_columns name[], OUT outcome text, OUT row_data jsonb', 'record'),
              ('idem_version_guard', '', 'trigger') $$, 'signatures');

-- Functions: for whom idem_grant serves, and for no one else.
SELECT pg_temp.make('open');
GRANT ALL ON row_privileges.open TO PUBLIC;
SELECT is(pg_temp.ends('tap_stranger', 'open'), '42501 42501 42501 42501 42501 42501 42501', 'flows_are_not_publics');
SELECT is(pg_temp.ends('tap_rows', 'open'),
    'updated(id note number secret version) updated(id note number secret version) adjusted locked(id note number secret '
        'version) locked(id note number secret version) inserted(id note number secret version) inserted(id note number '
        'secret version)',
    'flows_are_an_applications');
SELECT is(
    (SELECT string_agg(proname, ' ' ORDER BY proname COLLATE "C") FROM pg_proc WHERE pronamespace = 'idem'::regnamespace
        AND has_function_privilege('tap_rows', oid, 'EXECUTE')
        AND proname ~ '^(optimistic|conditional|pessimistic|unique_insert|guarded|idem_version_guard)'),
    'conditional_adjust conditional_update guarded_insert idem_version_guard optimistic_disable optimistic_enable '
        'optimistic_update pessimistic_lock pessimistic_lock_many unique_insert', 'all_of_them');
SELECT is(
    (SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'idem'::regnamespace
        AND has_function_privilege('tap_stranger', oid, 'EXECUTE')
        AND proname ~ '^(optimistic|conditional|pessimistic|unique_insert|guarded|idem_version_guard)'), NULL, 'none_of_them');
SELECT is(
    (SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'idem'::regnamespace
        AND proname ~ '^(optimistic|conditional|pessimistic|unique_insert|guarded|idem_version_guard)'
        AND (prosecdef OR proconfig IS NOT NULL OR provolatile <> 'v' OR proparallel <> 'u' OR proisstrict)), NULL,
            'they_run_as_their_caller_and_write');
SELECT idem_revoke('tap_rows');
SELECT is(pg_temp.ends('tap_rows', 'open'), '42501 42501 42501 42501 42501 42501 42501', 'revoked');
SELECT idem_grant('tap_rows');
-- The guard itself needs no grant: it fires for whoever may update.
SELECT is(pg_temp.state_as('tap_stranger', 'UPDATE row_privileges.open SET note = ''x'''), 'ok', 'guard_fires_for_a_stranger');
SELECT is((SELECT version FROM row_privileges.open), 2::bigint, 'and_counts');
SELECT is(pg_temp.state_as('tap_stranger', 'UPDATE row_privileges.open SET version = 9'), 'ID004', 'and_refuses');

-- Tables: each flow needs what the statement that it stands for needs.
SELECT pg_temp.make('shut');
SELECT is(pg_temp.ends('tap_rows', 'shut'), '42501 42501 42501 42501 42501 42501 42501', 'no_privilege');
GRANT SELECT ON row_privileges.shut TO tap_rows;
SELECT is(pg_temp.ends('tap_rows', 'shut'), '42501 42501 42501 42501 42501 42501 42501', 'reading_is_not_enough');
GRANT UPDATE ON row_privileges.shut TO tap_rows;
SELECT is(regexp_replace(pg_temp.ends('tap_rows', 'shut'), '\(.*?\)', '', 'g'),
    'updated updated adjusted locked locked 42501 42501', 'with_update');
REVOKE UPDATE ON row_privileges.shut FROM tap_rows;
GRANT INSERT ON row_privileges.shut TO tap_rows;
SELECT is(regexp_replace(pg_temp.ends('tap_rows', 'shut'), '\(.*?\)', '', 'g'),
    '42501 42501 42501 42501 42501 inserted inserted', 'with_insert');
REVOKE SELECT ON row_privileges.shut FROM tap_rows;
GRANT UPDATE, INSERT, DELETE ON row_privileges.shut TO tap_rows;
SELECT is(pg_temp.ends('tap_rows', 'shut'), '42501 42501 42501 42501 42501 42501 42501', 'writing_without_reading');
REVOKE ALL ON row_privileges.shut FROM tap_rows;
GRANT tap_other TO tap_rows;
GRANT ALL ON row_privileges.shut TO tap_other;
SELECT is(regexp_replace(pg_temp.ends('tap_rows', 'shut'), '\(.*?\)', '', 'g'),
    'updated updated adjusted locked locked inserted inserted', 'by_membership');
REVOKE tap_other FROM tap_rows;
REVOKE USAGE ON SCHEMA row_privileges FROM tap_rows;
GRANT ALL ON row_privileges.shut TO tap_rows;
SELECT is(pg_temp.answer_as('tap_rows', format('SELECT outcome FROM idem.pessimistic_lock(%s, ''{"id": 1}'')',
    'row_privileges.shut'::regclass::oid)), '"42501"', 'schema_without_usage');
GRANT USAGE ON SCHEMA row_privileges TO tap_rows;

-- Columns: row_data holds what the caller may read.
SELECT pg_temp.make('part');
GRANT SELECT (id, note, number, version), UPDATE (note, number, version), INSERT (id, note) ON row_privileges.part TO tap_rows;
SELECT is(pg_temp.ends('tap_rows', 'part'),
    'updated(id note number version) updated(id note number version) adjusted locked(id note number version) locked(id note '
        'number version) inserted(id note number version) inserted(id note number version)', 'readable_columns');
CREATE FUNCTION pg_temp.rows(call text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$ SELECT pg_temp.answer_as('tap_rows',
    'SELECT * FROM idem.' || call) $$;
SELECT is(pg_temp.rows('optimistic_update(''row_privileges.part'', ''{"id": 1}'', 7, ''{"note": "x"}'')'),
    '{"outcome": "conflict", "version": 1, "row_data": {"id": 1, "note": "old", "number": 5, "version": 1}}', 'conflict_shows_no_more');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"number": 7}'', ''{"note": "x"}'')'),
    '{"outcome": "conflict", "row_data": {"id": 1, "note": "old", "number": 5, "version": 1}}', 'nor_does_that_of_a_condition');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.part'', ''{"id": 1, "note": "x"}'')'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "note": "old", "number": 5, "version": 1}}', 'nor_does_a_duplicate');
SELECT is(pg_temp.rows('guarded_insert(''row_privileges.part'', ''{"id": 1, "note": "x"}'', ''{id}'')'),
    '{"outcome": "duplicate", "row_data": {"id": 1, "note": "old", "number": 5, "version": 1}}', 'nor_a_guarded_one');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, answer), '; ')
       FROM unnest(ARRAY['conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"secret": "secret"}'', '
           '''{"note": "x"}'')', 'conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"secret": "wrong"}'', '
           '''{"note": "x"}'')',
                         'conditional_update(''row_privileges.part'', ''{"id": 9}'', ''{"secret": "secret"}'', '
                             '''{"note": "x"}'')', 'conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"id": 1}'', '
                             '''{"secret": "x"}'')',
                         'conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"id": 1}'', ''{"id": 1}'')',
                             'conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"id": 7}'', ''{"secret": "x"}'')',
                         'optimistic_update(''row_privileges.part'', ''{"id": 1}'', 1, ''{"secret": "x"}'')',
                             'optimistic_update(''row_privileges.part'', ''{"id": 1}'', 7, ''{"note": "x", "secret": "x"}'')',
                             'conditional_adjust(''row_privileges.part'', ''{"id": 1}'', ''id'', 1)',
                         'unique_insert(''row_privileges.part'', ''{"id": 3, "secret": "x"}'')',
                             'unique_insert(''row_privileges.part'', ''{"id": 1, "secret": "secret"}'')',
                             'unique_insert(''row_privileges.part'', ''{"id": 3}'', ''{secret}'')',
                         'guarded_insert(''row_privileges.part'', ''{"id": 3, "secret": "x"}'', ''{id}'')',
                             'guarded_insert(''row_privileges.part'', ''{"id": 1, "secret": "secret"}'', '
                             '''{secret}'')']) AS call, pg_temp.rows(call) AS answer
      WHERE answer <> '"42501"'),
    NULL, 'columns_that_may_not_be_read_or_written');
ALTER TABLE row_privileges.part ALTER secret SET NOT NULL;
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.part'', ''{"secret": "secret"}'')')
    || pg_temp.rows('pessimistic_lock(''row_privileges.part'', ''{"secret": "wrong"}'')')
          || pg_temp.rows('pessimistic_lock_many(''row_privileges.part'', ''{"{\"secret\": \"wrong\"}"}'')')
              || pg_temp.rows('conditional_adjust(''row_privileges.part'', ''{"secret": "wrong"}'', ''number'', 1)'),
    '["42501", "42501", "42501", "42501"]', 'keys_that_may_not_be_read');
ALTER TABLE row_privileges.part ALTER secret DROP NOT NULL;
REVOKE SELECT (id) ON row_privileges.part FROM tap_rows;
SELECT is(pg_temp.ends('tap_rows', 'part'), '42501 42501 42501 42501 42501 42501 42501', 'key_that_may_not_be_read');
GRANT SELECT (id) ON row_privileges.part TO tap_rows;
REVOKE SELECT (number, version), UPDATE (number, version) ON row_privileges.part FROM tap_rows;
SELECT is(pg_temp.ends('tap_rows', 'part'),
    '42501 42501 42501 locked(id note) locked(id note) inserted(id note) inserted(id note)', 'columns_of_the_condition');
REVOKE UPDATE ON row_privileges.part FROM tap_rows;
REVOKE UPDATE (note) ON row_privileges.part FROM tap_rows;
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.part'', ''{"id": 1}'')'), '"42501"', 'lock_without_any_update_privilege');
GRANT UPDATE (secret) ON row_privileges.part TO tap_rows;
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.part'', ''{"id": 1}'')'),
    '{"outcome": "locked", "row_data": {"id": 1, "note": "old"}}', 'lock_with_that_of_one_column');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.part'', ''{"id": 1}'', ''{"note": "old"}'', '
    '''{"secret": "new"}'')'), '{"outcome": "updated", "row_data": {"id": 1, "note": "old"}}',
    'column_that_may_be_written_and_not_read');
-- The privileges of a whole table of columns, dropped ones and wide ones included.
SELECT format('CREATE TABLE row_privileges.wide (id int PRIMARY KEY, gone int, %s)', string_agg(format('c%s int DEFAULT %1$s',
    n), ', ')) FROM generate_series(1, 300) n \gexec
ALTER TABLE row_privileges.wide DROP gone, DROP c7;
INSERT INTO row_privileges.wide (id) VALUES (1);
SELECT format('GRANT SELECT (id, %s), UPDATE ON row_privileges.wide TO tap_rows', string_agg(format('c%s', n), ', '))
    FROM generate_series(2, 300, 2) n \gexec
SELECT is((pg_temp.rows('pessimistic_lock(''row_privileges.wide'', ''{"id": 1}'')')) -> 'row_data',
    (SELECT jsonb_object_agg('c' || n, n) || '{"id": 1}' FROM generate_series(2, 300, 2) n), 'half_of_three_hundred_columns');
-- Privileges that change between two calls of a session.
GRANT SELECT (c1) ON row_privileges.wide TO tap_rows;
SELECT is((pg_temp.rows('pessimistic_lock(''row_privileges.wide'', ''{"id": 1}'')')) #> '{row_data,c1}', '1', 'privilege_that_is_granted');
REVOKE SELECT (c1), SELECT (c2) ON row_privileges.wide FROM tap_rows;
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.wide'', ''{"id": 1}'')') -> 'row_data' ?| '{c1,c2}', false,
    'privileges_that_are_revoked');
GRANT SELECT, UPDATE ON row_privileges.wide TO tap_other;
SELECT is(pg_temp.answer_as('tap_other', $$ SELECT row_data ? 'c1' AS c1, row_data ? 'c7' AS c7
    FROM idem.pessimistic_lock('row_privileges.wide', '{"id": 1}') $$), '{"c1": true, "c7": false}',
    'another_role_in_the_same_session');
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.wide'', ''{"id": 1}'')') -> 'row_data' ?| '{c1,c2}', false,
    'and_the_first_one_again');

-- Owners: enabling and disabling are ALTER TABLE.
CREATE TABLE row_privileges.owned (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1);
ALTER TABLE row_privileges.owned OWNER TO tap_table_owner;
GRANT ALL ON row_privileges.owned TO tap_rows;
SELECT is(pg_temp.state_as('tap_rows', $$ SELECT idem.optimistic_enable('row_privileges.owned') $$) || ' '
    || pg_temp.state_as('tap_rows', $$ SELECT idem.optimistic_enable('row_privileges.owned', 'added') $$), '42501 42501',
    'enabling_needs_the_table');
SELECT is(pg_temp.state_as('tap_stranger', $$ SELECT idem.optimistic_enable('row_privileges.owned') $$), '42501', 'and_the_grant');
SELECT is(pg_temp.state_as('tap_table_owner', $$ SELECT idem.optimistic_enable('row_privileges.owned') $$), 'ok', 'owner_enables');
SELECT is(pg_temp.state_as('tap_rows', $$ SELECT idem.optimistic_disable('row_privileges.owned') $$), '42501', 'disabling_needs_the_table');
SELECT is(pg_temp.state_as('tap_rows', $$ SELECT idem.optimistic_enable('row_privileges.owned') $$), '42501', 'enabling_again_too');
SELECT is(pg_temp.state_as('tap_table_owner', $$ SELECT idem.optimistic_disable('row_privileges.owned') $$), 'ok', 'owner_disables');
CREATE TABLE row_privileges.added (id int PRIMARY KEY);
ALTER TABLE row_privileges.added OWNER TO tap_table_owner;
SELECT is(pg_temp.state_as('tap_table_owner', $$ SELECT idem.optimistic_enable('row_privileges.added') $$), 'ok', 'owner_adds_the_column');
GRANT tap_table_owner TO tap_rows;
SELECT is(pg_temp.state_as('tap_rows', $$ SELECT idem.optimistic_disable('row_privileges.added') $$), 'ok',
    'as_does_a_member_of_the_owner');
REVOKE tap_table_owner FROM tap_rows;

-- Row-level security.
CREATE TABLE row_privileges.docs (id int PRIMARY KEY, owner name NOT NULL DEFAULT current_user, body text UNIQUE,
    n int DEFAULT 0, version bigint NOT NULL DEFAULT 1);
CREATE INDEX ON row_privileges.docs (n);
INSERT INTO row_privileges.docs (id, owner, body, n) VALUES (1, 'tap_rows', 'mine', 1), (2, 'shared', 'shared', 2),
    (3, 'tap_other', 'hidden', 3);
ALTER TABLE row_privileges.docs OWNER TO tap_table_owner;
SELECT optimistic_enable('row_privileges.docs');
GRANT ALL ON row_privileges.docs TO tap_rows, tap_other;
ALTER TABLE row_privileges.docs ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON row_privileges.docs FOR SELECT USING (owner IN (current_user, 'shared'));
CREATE POLICY changed ON row_privileges.docs FOR UPDATE USING (owner = current_user) WITH CHECK (owner = current_user);
CREATE POLICY made ON row_privileges.docs FOR INSERT WITH CHECK (owner = current_user);
CREATE FUNCTION pg_temp.flows_of(id int, version int = 1) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(CASE jsonb_typeof(answer) WHEN 'object' THEN concat(answer ->> 'outcome',
        CASE WHEN jsonb_typeof(answer -> 'row_data') = 'object' THEN ' '
        || (answer #>> '{row_data,owner}') END) ELSE answer #>> '{}' END, ', ' ORDER BY n)
      FROM unnest(ARRAY['optimistic_update(''row_privileges.docs'', ''{"id": %1$s}'', %2$s, ''{"n": %1$s}'')',
          'conditional_update(''row_privileges.docs'', ''{"id": %1$s}'', ''{"n": %1$s}'', ''{"n": %1$s}'')',
          'conditional_update(''row_privileges.docs'', ''{"id": %1$s}'', ''{"n": 77}'', ''{"n": 1}'')',
                        'conditional_adjust(''row_privileges.docs'', ''{"id": %1$s}'', ''n'', 0)',
                            'conditional_adjust(''row_privileges.docs'', ''{"id": %1$s}'', ''n'', -100)',
                            'pessimistic_lock(''row_privileges.docs'', ''{"id": %1$s}'')',
                            'pessimistic_lock(''row_privileges.docs'', ''{"id": %1$s}'', ''0'')',
                            'pessimistic_lock_many(''row_privileges.docs'', ''{"{\"id\": %1$s}"}'')'])
           WITH ORDINALITY AS f (call, n), pg_temp.rows(format(call, id, version)) AS answer
$$;
SELECT is(pg_temp.flows_of(1), 'updated tap_rows, updated tap_rows, conflict tap_rows, adjusted, out_of_range, '
    'locked tap_rows, locked tap_rows, locked tap_rows', 'row_of_the_callers_own');
-- What the caller may see may be told: a comparison that fails is a conflict. See docs/limits.md.
SELECT is(pg_temp.flows_of(2), 'not_found, not_found, conflict shared, not_found, out_of_range, not_found, not_found, not_found',
    'row_that_may_be_seen_and_not_changed');
SELECT is(pg_temp.flows_of(3), 'not_found, not_found, not_found, not_found, not_found, not_found, not_found, not_found',
    'row_that_may_not_be_seen');
SELECT is(pg_temp.flows_of(2, 9), 'conflict shared, not_found, conflict shared, not_found, out_of_range, not_found, not_found, not_found',
    'row_that_may_not_be_changed_at_another_version');
SELECT is(pg_temp.flows_of(3, 9), pg_temp.flows_of(4, 9), 'row_that_may_not_be_seen_at_another_version');
SELECT is(pg_temp.answer_as('tap_rows', $$ SELECT string_agg(outcome, ' ') AS outcomes
    FROM idem.pessimistic_lock_many('row_privileges.docs', '{"{\"id\": 3}","{\"id\": 1}","{\"id\": 2}"}') $$),
    '{"outcomes": "not_found locked not_found"}', 'some_of_many');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.docs'', ''{"id": 1}'', ''{"n": 1}'', ''{"owner": "tap_other"}'')'),
    '"42501"', 'row_that_would_be_given_away');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 5, "owner": "tap_other"}'')')
    || pg_temp.rows('guarded_insert(''row_privileges.docs'', ''{"id": 5, "owner": "shared"}'', ''{id}'')'),
    '["42501", "42501"]', 'row_that_may_not_be_made');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 1}'')') -> 'row_data',
    '{"id": 1, "owner": "tap_rows", "body": "mine", "n": 1, "version": 4}', 'duplicate_that_may_be_seen');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 3}'')'), '{"outcome": "duplicate", "row_data": null}',
    'duplicate_that_may_not_be_seen');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 6, "body": "hidden"}'', ''{body}'')'),
    '{"outcome": "duplicate", "row_data": null}', 'by_another_column');
SELECT is(pg_temp.rows('guarded_insert(''row_privileges.docs'', ''{"id": 7, "n": 3}'', ''{n}'')'),
    '{"outcome": "duplicate", "row_data": null}', 'guarded_duplicate_that_may_not_be_seen');
SELECT is(pg_temp.rows('guarded_insert(''row_privileges.docs'', ''{"id": 7, "n": 2}'', ''{n}'')') #> '{row_data,owner}',
    '"shared"', 'guarded_duplicate_that_may_be_seen');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 8, "body": "eight"}'')') #> '{row_data,owner}',
    '"tap_rows"', 'row_that_may_be_made');
-- The same calls for another role of the same session.
SELECT is(pg_temp.answer_as('tap_other', $$ SELECT outcome FROM idem.pessimistic_lock('row_privileges.docs', '{"id": 3}') $$)
    || pg_temp.answer_as('tap_other', $$ SELECT outcome AS of_another FROM idem.pessimistic_lock('row_privileges.docs',
    '{"id": 1}') $$),
    '{"outcome": "locked", "of_another": "not_found"}', 'plans_are_of_a_role');
SELECT is(pg_temp.answer_as('tap_table_owner', $$ SELECT outcome FROM idem.pessimistic_lock('row_privileges.docs',
    '{"id": 3}') $$), '{"outcome": "locked"}', 'owner_is_not_bound');
ALTER TABLE row_privileges.docs FORCE ROW LEVEL SECURITY;
SELECT is(pg_temp.answer_as('tap_table_owner', $$ SELECT outcome FROM idem.pessimistic_lock('row_privileges.docs',
    '{"id": 3}') $$), '{"outcome": "not_found"}', 'unless_it_is_forced');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 3}'')'), '{"outcome": "duplicate", "row_data": null}',
    'hidden_duplicate_where_it_is_forced');
SELECT is(pg_temp.answer_as('tap_table_owner', $$ SELECT * FROM idem.unique_insert('row_privileges.docs', '{"id": 3}') $$),
    '{"outcome": "duplicate", "row_data": null}', 'from_the_owner_too');
CREATE TABLE row_privileges.forced (LIKE row_privileges.docs INCLUDING ALL);
INSERT INTO row_privileges.forced (id, owner) VALUES (3, 'tap_other');
ALTER TABLE row_privileges.forced OWNER TO tap_table_owner, ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY seen ON row_privileges.forced FOR SELECT USING (owner = current_user);
CREATE POLICY made ON row_privileges.forced FOR INSERT WITH CHECK (true);
SELECT is(pg_temp.answer_as('tap_table_owner', $$ SELECT * FROM idem.unique_insert('row_privileges.forced', '{"id": 3}') $$),
    '{"outcome": "duplicate", "row_data": null}', 'and_from_the_owner_first');
SELECT is(pg_temp.answer_as('tap_table_owner', $$ SELECT * FROM idem.guarded_insert('row_privileges.forced', '{"id": 7, "n": 0}', '{n}') $$),
    '{"outcome": "duplicate", "row_data": null}', 'guarded_duplicate_hidden_from_the_owner');
SET LOCAL row_security = off;
SELECT is(pg_temp.flows_of(3) || ', ' || (pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 3}'')') #>> '{}') ,
    '42501, 42501, 42501, 42501, 42501, 42501, 42501, 42501, 42501', 'row_security_off_is_an_error');
SET LOCAL row_security = on;
CREATE POLICY all_of_it ON row_privileges.docs TO tap_rows USING (true) WITH CHECK (true);
SELECT is(split_part(pg_temp.flows_of(3), ',', 1), 'updated tap_other', 'policy_that_is_added');
DROP POLICY all_of_it ON row_privileges.docs;
SELECT is(split_part(pg_temp.flows_of(3, 2), ',', 1), 'not_found', 'and_dropped');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.docs'', ''{"id": 8}'', ''{"n": 0}'', ''{"body": "hidden"}'')'),
    '"23505"', 'violation_by_a_hidden_row');
-- Privileges of columns and rows together.
REVOKE SELECT ON row_privileges.docs FROM tap_rows;
GRANT SELECT (id, n) ON row_privileges.docs TO tap_rows;
SELECT is(pg_temp.rows('pessimistic_lock(''row_privileges.docs'', ''{"id": 1}'')'),
    '{"outcome": "locked", "row_data": {"id": 1, "n": 1}}', 'policy_on_a_column_that_may_not_be_read');
SELECT is(pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 3}'')')
    || pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 2}'')'),
    '{"outcome": "duplicate", "row_data": {"id": 2, "n": 2}}', 'duplicates_by_columns_and_rows');
GRANT ALL ON row_privileges.docs TO tap_rows;

-- Triggers, as the caller.
CREATE FUNCTION row_privileges.stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.body = 'suppressed' THEN RETURN NULL; END IF;
    NEW.body := concat(NEW.body, ' by ', current_user);
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON row_privileges.docs FOR EACH ROW EXECUTE FUNCTION row_privileges.stamp();
SELECT is(pg_temp.rows('conditional_update(''row_privileges.docs'', ''{"id": 1}'', ''{"n": 1}'', '
    '''{"body": "changed"}'')') #> '{row_data,body}', '"changed by tap_rows"', 'trigger_runs_as_the_caller');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.docs'', ''{"id": 1}'', ''{"n": 1}'', ''{"body": "suppressed"}'')')
    || pg_temp.rows('optimistic_update(''row_privileges.docs'', ''{"id": 1}'', 5, ''{"body": "suppressed"}'')')
          || pg_temp.rows('unique_insert(''row_privileges.docs'', ''{"id": 9, "body": "suppressed"}'')')
              || pg_temp.rows('guarded_insert(''row_privileges.docs'', ''{"id": 9, "body": "suppressed"}'', ''{id}'')'),
    '["09000", "09000", "09000", "09000"]', 'suppressed_changes_of_rows_that_may_be_changed');
SELECT is(pg_temp.rows('conditional_update(''row_privileges.docs'', ''{"id": 2}'', ''{"n": 2}'', '
    '''{"body": "suppressed"}'')') ->> 'outcome', 'not_found', 'and_of_a_row_that_may_not');
DROP TRIGGER stamp ON row_privileges.docs;

-- Functions with the rights of their owner.
CREATE FUNCTION row_privileges.as_owner(id int) RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog,
    pg_temp AS $$ SELECT outcome FROM idem.pessimistic_lock('row_privileges.shut', jsonb_build_object('id', id)) $$;
REVOKE ALL ON row_privileges.shut FROM tap_stranger;
SELECT is(pg_temp.answer_as('tap_stranger', 'SELECT row_privileges.as_owner(1) AS outcome'), '{"outcome": "locked"}',
    'security_definer_functions_lend_theirs');

-- Rules.
SELECT pg_temp.make('ruled');
CREATE TABLE row_privileges.log (event text);
CREATE RULE log AS ON UPDATE TO row_privileges.ruled DO ALSO INSERT INTO row_privileges.log VALUES ('updated');
GRANT SELECT, UPDATE, INSERT ON row_privileges.ruled TO tap_rows;
SELECT is(regexp_replace(pg_temp.ends('tap_rows', 'ruled'), '\(.*?\)', '', 'g'),
    'updated updated adjusted locked locked 0A000 inserted', 'rule_that_adds_a_statement');
SELECT pg_temp.rows('conditional_update(''row_privileges.ruled'', ''{"id": 1}'', ''{"number": 5}'', ''{"note": "x"}'')') ->> 'outcome';
SELECT is((SELECT count(*) FROM row_privileges.log), 1::bigint, 'and_runs');
CREATE RULE never AS ON UPDATE TO row_privileges.ruled WHERE NEW.note = 'never' DO INSTEAD NOTHING;
SELECT matches(pg_temp.rows('conditional_update(''row_privileges.ruled'', ''{"id": 1}'', ''{"number": 5}'', '
    '''{"note": "never"}'')')::text, '^"(09000|0A000)"$', 'rule_that_suppresses');
DROP RULE never ON row_privileges.ruled;
CREATE RULE instead AS ON UPDATE TO row_privileges.ruled DO INSTEAD UPDATE row_privileges.open SET note = 'ruled' WHERE id = OLD.id;
SELECT matches(pg_temp.rows('conditional_update(''row_privileges.ruled'', ''{"id": 1}'', ''{"number": 5}'', '
    '''{"note": "y"}'')')::text, '^"(09000|0A000)"$', 'rule_that_updates_another_table_instead');

-- Nothing of the table's runs for a role that may not insert: no trigger, no default, and no lock is taken.
CREATE SEQUENCE row_privileges.triggered;
CREATE SEQUENCE row_privileges.defaulted;
CREATE FUNCTION row_privileges.fired() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN PERFORM nextval('row_privileges.triggered'); RETURN NEW; END $$;
CREATE FUNCTION row_privileges.evaluated() RETURNS int LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ BEGIN RETURN nextval('row_privileges.defaulted'); END $$;
CREATE TABLE row_privileges.quiet (id int PRIMARY KEY DEFAULT row_privileges.evaluated(), note text UNIQUE, number int, secret int DEFAULT row_privileges.evaluated());
INSERT INTO row_privileges.quiet VALUES (1, 'there', 5, 5);
CREATE TRIGGER fired BEFORE INSERT OR UPDATE ON row_privileges.quiet FOR EACH ROW EXECUTE FUNCTION row_privileges.fired();
CREATE FUNCTION pg_temp.effects(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb := pg_temp.answer_as('tap_rows', statement);
BEGIN
    RETURN concat(coalesce(answer ->> 'outcome', answer #>> '{}'), CASE WHEN t.is_called THEN ' triggered' END, CASE WHEN d.is_called THEN ' evaluated' END)
      FROM row_privileges.triggered t, row_privileges.defaulted d;
END $$;
CREATE FUNCTION pg_temp.all_effects() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(DISTINCT pg_temp.effects('SELECT outcome FROM idem.' || call), ', ')
      FROM unnest(ARRAY['guarded_insert(''row_privileges.quiet'', ''{"id": 2, "note": "new"}'', ''{id}'')',
          'guarded_insert(''row_privileges.quiet'', ''{"note": "new"}'', ''{id}'')', 'guarded_insert(''row_privileges.quiet'', ''{"id": 1}'', ''{id}'')',
          'unique_insert(''row_privileges.quiet'', ''{"id": 2, "note": "new"}'')', 'unique_insert(''row_privileges.quiet'', ''{"note": "new"}'')',
          'unique_insert(''row_privileges.quiet'', ''{"id": 1}'')',
          'conditional_update(''row_privileges.quiet'', ''{"id": 1}'', ''{"note": "there"}'', ''{"number": 6}'')',
          'conditional_adjust(''row_privileges.quiet'', ''{"id": 1}'', ''number'', 1)']) AS call
$$;
CREATE FUNCTION pg_temp.value_locks() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid NOT IN (1, 2)
$$;
SELECT pg_temp.value_locks() AS locks \gset
SELECT is(pg_temp.all_effects(), '42501', 'nothing_runs_without_privileges');
GRANT SELECT ON row_privileges.quiet TO tap_rows;
SELECT is(pg_temp.all_effects(), '42501', 'nor_with_that_to_read');
REVOKE SELECT ON row_privileges.quiet FROM tap_rows;
GRANT INSERT, UPDATE ON row_privileges.quiet TO tap_rows;
SELECT is(pg_temp.all_effects(), '42501', 'nor_with_that_to_write');
REVOKE INSERT, UPDATE ON row_privileges.quiet FROM tap_rows;
GRANT INSERT (number), UPDATE (note), SELECT ON row_privileges.quiet TO tap_rows;
SELECT is(pg_temp.all_effects(), '42501', 'nor_with_those_of_other_columns');
SELECT is(pg_temp.value_locks(), :locks::bigint, 'no_value_is_locked');
GRANT INSERT (id, note) ON row_privileges.quiet TO tap_rows;
SELECT is(pg_temp.effects('SELECT outcome FROM idem.guarded_insert(''row_privileges.quiet'', ''{"id": 2, "note": "new"}'', ''{id}'')'),
    'inserted triggered evaluated', 'and_all_of_it_with_those_that_are_needed');
ROLLBACK;

-- Read-only transactions: whatever would write, and locking writes.
CREATE SCHEMA row_privileges;
CREATE TABLE row_privileges.plain (id int PRIMARY KEY, note text, number int, version bigint NOT NULL DEFAULT 1);
INSERT INTO row_privileges.plain VALUES (1, 'old', 5);
SELECT optimistic_enable('row_privileges.plain');
CREATE TABLE row_privileges.bare (id int PRIMARY KEY);
CREATE TEMP TABLE writes AS SELECT unnest(ARRAY['optimistic_update(''row_privileges.plain'', ''{"id": 1}'', 1, '
    '''{"note": "new"}'')', 'optimistic_update(''row_privileges.plain'', ''{"id": 1}'', 9, ''{"note": "new"}'')',
    'optimistic_update(''row_privileges.plain'', ''{"id": 9}'', 1, ''{}'')',
    'conditional_update(''row_privileges.plain'', ''{"id": 1}'', ''{"number": 5}'', ''{"note": "new"}'')',
        'conditional_update(''row_privileges.plain'', ''{"id": 1}'', ''{"number": 7}'', ''{"note": "new"}'')',
        'conditional_adjust(''row_privileges.plain'', ''{"id": 1}'', ''number'', 1)',
    'conditional_adjust(''row_privileges.plain'', ''{"id": 1}'', ''number'', -100)',
        'pessimistic_lock(''row_privileges.plain'', ''{"id": 1}'')',
        'pessimistic_lock(''row_privileges.plain'', ''{"id": 9}'', ''0'')',
        'pessimistic_lock_many(''row_privileges.plain'', ''{"{\"id\": 1}"}'', ''1 s'')',
    'unique_insert(''row_privileges.plain'', ''{"id": 2}'')', 'unique_insert(''row_privileges.plain'', ''{"id": 1}'')',
        'guarded_insert(''row_privileges.plain'', ''{"id": 2}'', ''{id}'')',
        'guarded_insert(''row_privileges.plain'', ''{"id": 1}'', ''{id}'')',
    'optimistic_enable(''row_privileges.bare'')', 'optimistic_disable(''row_privileges.plain'')']) AS call;
BEGIN READ ONLY;
SELECT is((SELECT string_agg(format('%s: %s', call, state), '; ') FROM writes, pg_temp.state_of('SELECT * FROM '
    || call) AS state WHERE state <> '25006'), NULL, 'read_only_transaction');
ROLLBACK;
BEGIN;
SELECT count(*) FROM row_privileges.plain;
SET TRANSACTION READ ONLY;
SELECT is((SELECT string_agg(format('%s: %s', call, state), '; ') FROM writes, pg_temp.state_of('SELECT * FROM '
    || call) AS state WHERE state <> '25006'), NULL, 'transaction_that_becomes_read_only');
ROLLBACK;
CREATE TEMP TABLE passing (id int PRIMARY KEY, n int);
INSERT INTO passing VALUES (1, 1);
BEGIN READ ONLY;
SELECT is(pg_temp.answer($$ SELECT outcome FROM conditional_adjust('passing', '{"id": 1}', 'n', 1) $$) || pg_temp.answer($$
    SELECT outcome AS inserted FROM unique_insert('passing', '{"id": 2}') $$),
    '{"outcome": "adjusted", "inserted": "inserted"}',
    'temporary_tables_are_exempt_as_for_any_statement');
ROLLBACK;
-- In a parallel worker no function of these can run, even behind a wrapper that is labelled wrongly.
CREATE FUNCTION row_privileges.mislabelled(call text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE
    AS $$ BEGIN EXECUTE 'SELECT FROM idem.' || call; RETURN 'ok'; END $$;
CREATE FUNCTION pg_temp.parallel(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    PERFORM set_config(name, 'on', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
    BEGIN
        EXECUTE statement INTO result;
    EXCEPTION WHEN OTHERS THEN
        result := SQLSTATE;
    END;
    PERFORM set_config(name, 'off', true) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
    RETURN result;
END $$;
SELECT is((SELECT string_agg(format('%s: %s', call, state), '; ') FROM writes,
    pg_temp.parallel(format('SELECT row_privileges.mislabelled(%L)', call)) AS state WHERE state <> '25000'), NULL,
    'parallel_worker');
SELECT results_eq('SELECT id, note, number, version FROM row_privileges.plain', $$ VALUES (1, 'old', 5, 1::bigint) $$,
    'nothing_has_changed');

DROP SCHEMA row_privileges CASCADE;
SELECT * FROM finish();
