-- idem_execute within idem_execute: what is kept of statements between calls must survive calls in between.
\ir ../include/helpers.psql
SELECT plan(8);
CALL pg_temp.clean('nested:');

-- More statements than the cache of plans keeps: they take 16 MB together.
CREATE FUNCTION pg_temp.churn(name text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM t.response FROM generate_series(1, 300) n, idem.idem_execute(format('nested:%s:%s', name, n), format('SELECT %s AS %I /*%s*/', n, name, repeat('x', 50000))) t;
    RETURN 300;
END $$;

SELECT is(pg_temp.churn('a') + pg_temp.churn('b'), 600, 'hundreds_of_statements');
SELECT is((SELECT response FROM idem_execute('nested:first', 'SELECT 1 AS a')), '[{"a": 1}]', 'first_statement_again');
SELECT is(t.response, '[{"n": 1, "b": "x1", "churned": 300}, {"n": 2, "b": "x2", "churned": 300}, {"n": 3, "b": "x3", "churned": 300}]',
    'statement_survives_hundreds_within')
  FROM idem_execute('nested:outer', $$ SELECT n, pg_temp.churn('c' || n) AS churned, $1::text || n AS b
                                         FROM generate_series(1, 3) n $$, '["x"]') t;
SET plan_cache_mode = force_generic_plan;
SELECT is(t.response,
    '[{"n": 1, "b": null, "churned": 300}, {"n": 2, "b": "x25", "churned": 300}, {"n": 3, "b": "x35", "churned": 300}]',
    'arguments_survive_hundreds_within')
  FROM idem_execute('nested:generic', $$ SELECT n, pg_temp.churn('d' || n) AS churned,
                                                CASE WHEN n > 1 THEN $2::text || n || $1::int END AS b
                                           FROM generate_series(1, 3) n $$, '[5, "x"]') t;
RESET plan_cache_mode;
-- What was freed could still be read: so look whether it is there.
SELECT is(t.response, '[{"kept": 1, "churned": 300}]', 'statement_is_kept_while_it_runs')
  FROM idem_execute('nested:kept', $$ SELECT pg_temp.churn('e') AS churned,
                                             (SELECT count(*) FROM pg_get_backend_memory_contexts()
                                               WHERE name = 'CachedPlanSource' AND ident LIKE '%churn(''e'')%') AS kept $$) t;

-- A statement that runs itself, down to a depth.
CREATE FUNCTION pg_temp.descend(depth int) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF depth = 0 THEN
        RETURN '"bottom"';
    END IF;
    RETURN (SELECT response -> 0 -> 'inner'
              FROM idem.idem_execute('nested:depth' || depth, 'SELECT pg_temp.descend($1) AS inner', jsonb_build_array(depth - 1)));
END $$;
SELECT is(pg_temp.descend(20), '"bottom"', 'statement_that_runs_itself');

-- A statement that changes what it reads, while it runs once more within.
CREATE TEMP TABLE changing (a int);
INSERT INTO changing VALUES (1);
CREATE FUNCTION pg_temp.alter_and_repeat() RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE changing ADD b text DEFAULT 'new';
    RETURN (SELECT response FROM idem.idem_execute('nested:repeat', 'SELECT * FROM changing WHERE a = $1', '[1]'));
END $$;
SELECT is((SELECT response FROM idem_execute('nested:before', 'SELECT * FROM changing WHERE a = $1', '[1]')), '[{"a": 1}]', 'before_the_change');
SELECT is((SELECT response FROM idem_execute('nested:alter', 'SELECT pg_temp.alter_and_repeat() AS inner')),
    '[{"inner": [{"a": 1, "b": "new"}]}]', 'change_within_is_seen_within');

CALL pg_temp.clean('nested:');
SELECT * FROM finish();
