-- idem_execute: claim, run one statement, store its rows, complete.
\ir ../include/helpers.psql
SELECT plan(31);
CALL pg_temp.clean('execute:');

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS tap_execute CASCADE;
CREATE SCHEMA tap_execute;
CREATE TABLE tap_execute.orders (id int GENERATED ALWAYS AS IDENTITY, amount numeric CHECK (amount > 0), note text);

CREATE FUNCTION pg_temp.runs() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM tap_execute.orders';

-- Run and replay.
SELECT is(pg_temp.ticket(t),
    '{"outcome": "acquired", "attempt": 1, "response": [{"id": 1, "amount": 9.50}]}', 'first_call_runs_and_carries_the_rows')
  FROM idem_execute('execute:a', 'INSERT INTO tap_execute.orders (amount) VALUES ($1) RETURNING id, amount', '[9.50]') t;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "response": [{"id": 1, "amount": 9.50}]}', 'second_call_replays')
  FROM idem_execute('execute:a', 'INSERT INTO tap_execute.orders (amount) VALUES ($1) RETURNING id, amount', '[9.50]') t;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "response": [{"id": 1, "amount": 9.50}]}',
    'replay_does_not_even_read_the_statement') FROM idem_execute('execute:a', 'no such statement') t;
SELECT is(pg_temp.runs(), 1::bigint, 'statement_ran_once');
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "response": [{"id": 1, "amount": 9.50}]}',
    'begin_replays_what_was_executed') FROM idem_begin('execute:a') t;
SELECT is(pg_temp.ticket(t) -> 'outcome', '"acquired"', 'arguments_by_name')
  FROM idem_execute(key => 'execute:a', statement => 'SELECT 1', args => '[]', fingerprint => idem_fingerprint('1'),
                    ttl => '1 hour', scope => 'execute:scope') t;
SELECT is(pg_temp.ticket(t), '{"outcome": "mismatch"}', 'other_request_with_this_key')
  FROM idem_execute('execute:a', 'INSERT INTO tap_execute.orders (amount) VALUES (1)', fingerprint => idem_fingerprint('2'),
                    scope => 'execute:scope') t;
SELECT is(pg_temp.runs(), 1::bigint, 'mismatch_did_not_run');

-- Rows.
SELECT is(t.response, '[]', 'no_rows_are_an_empty_array') FROM idem_execute('execute:none', 'SELECT 1 AS a WHERE false') t;
SELECT is(t.response, '[]', 'statement_without_rows_is_an_empty_array')
  FROM idem_execute('execute:silent', 'INSERT INTO tap_execute.orders (amount) VALUES (2)') t;
SELECT is(t.response, '[]', 'update_of_nothing') 
  FROM idem_execute('execute:nothing', 'UPDATE tap_execute.orders SET note = note WHERE false RETURNING *') t;
SELECT is(t.response, '[{"n": 3}, {"n": 1}, {"n": 2}]', 'rows_keep_their_order')
  FROM idem_execute('execute:order', 'SELECT n FROM (VALUES (1, 2), (2, 3), (3, 1)) AS v (n, place) ORDER BY place') t;
SELECT is(jsonb_array_length(t.response), 10000, 'ten_thousand_rows') 
  FROM idem_execute('execute:rows', 'SELECT n FROM generate_series(1, 10000) n') t;
SELECT is(t.response, (SELECT jsonb_agg(to_jsonb(q)) FROM (SELECT
    1::smallint AS s, 9223372036854775807 AS b, 1.50::numeric AS n, 0.1::float8 AS f, true AS t, NULL::text AS missing,
    E'a"b\\c\n' AS text, 'żółw' AS utf8, '\xdeadbeef'::bytea AS bytes, date '2024-02-29' AS d,
    timestamptz '2024-02-29 12:00+00' AS at, interval '1 day 2 hours' AS i, '{"a": [1, null]}'::jsonb AS j, '[1]'::json AS json,
    ARRAY[1, 2] AS ints, ARRAY[['a', 'b']] AS texts, ROW(1, 'x') AS r, 'acquired'::idem_outcome AS e, 'NaN'::float8 AS nan,
    int4range(1, 3) AS range) AS q), 'values_are_written_as_to_jsonb_does')
  FROM idem_execute('execute:types', $statement$ SELECT
    1::smallint AS s, 9223372036854775807 AS b, 1.50::numeric AS n, 0.1::float8 AS f, true AS t, NULL::text AS missing,
    E'a"b\\c\n' AS text, 'żółw' AS utf8, '\xdeadbeef'::bytea AS bytes, date '2024-02-29' AS d,
    timestamptz '2024-02-29 12:00+00' AS at, interval '1 day 2 hours' AS i, '{"a": [1, null]}'::jsonb AS j, '[1]'::json AS json,
    ARRAY[1, 2] AS ints, ARRAY[['a', 'b']] AS texts, ROW(1, 'x') AS r, 'acquired'::idem.idem_outcome AS e, 'NaN'::float8 AS nan,
    int4range(1, 3) AS range $statement$) t;
SELECT is(t.response, '[{"a \"b\" C": 1, "é": 2}]', 'odd_column_names')
  FROM idem_execute('execute:names', $$ SELECT 1 AS "a ""b"" C", 2 AS "é" $$) t;
SELECT is(t.response, '[{"?column?": 1}]', 'unnamed_column') FROM idem_execute('execute:unnamed', 'SELECT 1') t;
SELECT is(t.response, '[{}]', 'row_without_columns') FROM idem_execute('execute:empty row', 'SELECT') t;
SELECT is(t.response, '[{"column1": 1}, {"column1": 2}]', 'values_statement') FROM idem_execute('execute:values', 'VALUES (1), (2)') t;
SELECT is(t.response, '[{"amount": 3}]', 'data_modifying_with')
  FROM idem_execute('execute:with', 'WITH made AS (INSERT INTO tap_execute.orders (amount) VALUES ($1) RETURNING *)
                                     SELECT amount FROM made', '[3]') t;
SELECT is(t.response, '[{"n": 1}]', 'trailing_semicolon_and_comment') FROM idem_execute('execute:semicolon', 'SELECT 1 AS n; -- one') t;

-- Size.
SELECT idem_scope_set('execute:small', max_response_size => 100);
SET client_min_messages = error;
SELECT is((pg_temp.ticket(t) #- '{response,0,x}') - 'response_omitted', '{"outcome": "acquired", "attempt": 1, "response": [{}]}',
    'response_over_the_limit_is_in_the_ticket')
  FROM idem_execute('execute:large', $$ SELECT repeat('x', 5000) AS x $$, scope => 'execute:small') t;
SET client_min_messages = warning;
SELECT is(pg_temp.ticket(t) - 'attempt', '{"outcome": "completed", "response_omitted": true}', 'but_not_in_the_replay')
  FROM idem_execute('execute:large', $$ SELECT repeat('x', 5000) AS x $$, scope => 'execute:small') t;

-- Keys in other states.
SELECT outcome FROM idem_begin('execute:live', lease => '1 hour');
SELECT fence AS lapsed FROM idem_begin('execute:lapsed', lease => '1 ms') \gset
SELECT fence AS released FROM idem_begin('execute:released', lease => '1 hour') \gset
SELECT idem_release('execute:released', :released);
SELECT idem_scope_set('execute:manual', on_lease_expiry => 'manual');
SELECT outcome FROM idem_begin('execute:doubt', lease => '1 ms', scope => 'execute:manual');
SELECT idem_claim('execute:expired', '1 ms');
SELECT idem_claim('execute:claimed');
CALL pg_temp.sleep('5 ms');
SELECT is(
    (SELECT string_agg(key || ' ' || t.outcome || coalesce(' ' || t.response::text, ''), ', ' ORDER BY key)
       FROM (VALUES ('execute:live', ''), ('execute:lapsed', ''), ('execute:released', ''), ('execute:doubt', 'execute:manual'),
                    ('execute:expired', ''), ('execute:claimed', '')) AS stored (key, scope),
            idem_execute(key, 'SELECT 7 AS n', scope => scope) t),
    'execute:claimed completed, execute:doubt in_doubt, execute:expired acquired [{"n": 7}], '
    'execute:lapsed taken_over [{"n": 7}], execute:live in_flight, execute:released acquired [{"n": 7}]',
    'every_stored_state');
SELECT is((SELECT state FROM idem_lookup('execute:lapsed')), 'completed', 'lapsed_key_is_completed_by_execute');

-- One transaction, one statement, one function.
BEGIN;
SELECT is((SELECT outcome FROM idem_execute('execute:own', 'SELECT 1')), 'acquired', 'own_execution');
SELECT is((SELECT outcome FROM idem_execute('execute:own', 'SELECT 1')), 'completed', 'own_execution_again');
SELECT is(idem_claim('execute:own'), false, 'own_execution_claimed');
ROLLBACK;
SELECT is(t.response, '[{"inner": [{"n": 5}]}]', 'execution_within_an_execution')
  FROM idem_execute('execute:outer', $$ SELECT (SELECT response FROM idem.idem_execute('execute:inner', 'SELECT 5 AS n')) AS inner $$) t;
SELECT is(t.response -> 0 ->> 'again', 'completed', 'execution_of_a_key_within_itself_is_a_replay')
  FROM idem_execute('execute:self', $$ SELECT (SELECT outcome FROM idem.idem_execute('execute:self', 'SELECT 5 AS n')) AS again $$) t;
SELECT is((SELECT array_agg(t.outcome ORDER BY n) FROM generate_series(1, 3) n, idem_execute('execute:thrice', 'SELECT ' || n) t),
    '{acquired,completed,completed}', 'three_executions_in_one_statement');
SELECT ok((SELECT expires_at - created_at BETWEEN interval '3599 s' AND interval '3601 s'
             FROM idem_lookup('execute:a', scope => 'execute:scope')), 'ttl_of_an_execution');

DROP SCHEMA tap_execute CASCADE;
CALL pg_temp.clean('execute:');
SELECT * FROM finish();
