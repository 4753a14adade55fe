-- The state table of a key in tests/vectors/claims.tsv: each call comes to the outcome of the first line that fits, and writes what the line says. Rows
-- without a line are new keys, and a completed key within its retention is a duplicate: calls take a shorter way for both.
\ir ../include/helpers.psql
\set vectors `cat tests/vectors/claims.tsv`
SELECT plan(9);
CALL pg_temp.clean('table:');
SELECT idem_scope_set('table:manual', on_lease_expiry => 'manual');

CREATE TEMP TABLE claims AS
    SELECT n AS line, part[1] AS state, part[2:9] AS wanted, part[10] AS outcome, part[11] AS write
      FROM regexp_split_to_table(:'vectors', '\n') WITH ORDINALITY AS l (line, n), regexp_split_to_array(line, '\t') AS part
     WHERE line ~ '^[-pcrd]\t';

CREATE TEMP TABLE facts AS
    SELECT row_number() OVER () AS n, f.*, first.*
      FROM (SELECT *, ARRAY[over, live, own, fenced, differs, same_owner, manual, leased] AS given
              FROM unnest('{-,p,c,r,d}'::text[]) AS state, unnest('{f,t}'::boolean[]) AS over, unnest('{f,t}'::boolean[]) AS live,
                   unnest('{f,t}'::boolean[]) AS own, unnest('{f,t}'::boolean[]) AS fenced, unnest('{f,t}'::boolean[]) AS differs,
                   unnest('{f,t}'::boolean[]) AS same_owner, unnest('{f,t}'::boolean[]) AS manual, unnest('{f,t}'::boolean[]) AS leased) f
      LEFT JOIN LATERAL (SELECT line, outcome, write FROM claims c
                          WHERE c.state = f.state
                            AND NOT EXISTS (SELECT FROM unnest(c.wanted, f.given) AS w (wanted, given) WHERE wanted <> '*' AND (wanted = 'yes') <> given)
                          ORDER BY line LIMIT 1) first ON true;
SELECT is((SELECT count(outcome) FROM facts), 5 * 256::bigint, 'a_line_fits_each_combination_of_facts');
SELECT is((SELECT string_agg(line::text, ', ') FROM claims WHERE line NOT IN (SELECT line FROM facts)), NULL, 'each_line_is_the_first_for_one');

-- A row with these facts. What is over ends at `ended`, and the rest two hours later.
CREATE FUNCTION pg_temp.row_of(f facts, ended timestamptz) RETURNS idem_keys LANGUAGE sql AS $$
    SELECT jsonb_populate_record(NULL::idem_keys, jsonb_build_object(
        'created_at', ended - interval '1 day', 'expires_at', ended + CASE WHEN f.over THEN interval '0' ELSE interval '2 hours' END, 'attempt', 3, 'state', f.state,
        'scope', CASE WHEN f.manual THEN 'table:manual' ELSE 'table:auto' END, 'key', 'table:' || f.n,
        'lease_until', CASE WHEN f.state IN ('p', 'd') THEN ended + CASE WHEN f.live THEN interval '2 hours' ELSE interval '0' END END,
        'fence', CASE WHEN f.fenced THEN 7 END, 'owner', 'me', 'fingerprint', '\x01'))
$$;

-- The portable edition decides in one function, as the C edition does (tests/unit/key_state_test.cpp). A time that is now is over.
SELECT edition = 'portable' AS is_portable FROM idem_version() \gset
\if :is_portable
SELECT is((SELECT string_agg(format('%s: %s %s', f.n, d.outcome, d.write), ', ')
             FROM facts f, unnest('{0,1}'::int[]) AS seconds,
                  _idem_key_state(pg_temp.row_of(f, now() - make_interval(secs => seconds)), now(), f.own, CASE WHEN f.differs THEN '\x02'::bytea ELSE '\x01' END,
                                  CASE WHEN f.same_owner THEN 'me' ELSE 'you' END, f.manual, f.leased) AS d
            WHERE f.state <> '-' AND (d.outcome::text, d.write) IS DISTINCT FROM (f.outcome, f.write)),
          NULL, 'the_decision_is_that_of_the_table');
\else
SELECT pass('the_decision_is_that_of_the_table');
\endif

-- Rows as calls make them.
DELETE FROM facts WHERE CASE state WHEN '-' THEN over OR live OR own OR fenced OR differs OR same_owner WHEN 'p' THEN NOT fenced ELSE live END;
INSERT INTO idem_keys SELECT r.* FROM facts f, pg_temp.row_of(f, now() - interval '1 hour') AS r WHERE f.state <> '-' AND NOT f.own;

-- What a call comes to. "granted" and "held" are what a boolean and ID005 say.
CREATE FUNCTION pg_temp.called(call text, f facts) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    key   text := 'table:' || f.n;
    scope text := CASE WHEN f.manual THEN 'table:manual' ELSE 'table:auto' END;
BEGIN
    RETURN CASE call
        WHEN 'idem_begin' THEN (idem_begin(key, CASE WHEN f.differs THEN '\x02'::bytea ELSE '\x01' END, lease => CASE WHEN f.leased THEN interval '9 hours' END,
                                           owner => CASE WHEN f.same_owner THEN 'me' ELSE 'you' END, scope => scope)).outcome::text
        WHEN 'idem_try_claim' THEN idem_try_claim(key, scope => scope)::text
        WHEN 'idem_claim' THEN CASE WHEN idem_claim(key, scope => scope) THEN 'granted' ELSE 'completed' END
        ELSE CASE WHEN EXISTS (SELECT FROM idem_claim_many(ARRAY[key], scope => scope)) THEN 'granted' ELSE 'completed' END END;
EXCEPTION WHEN SQLSTATE 'ID005' THEN
    RETURN 'held';
END
$$;

-- The calls whose outcome or write is another than that of the table.
CREATE FUNCTION pg_temp.surprises(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    f       facts;
    k       idem_keys;
    outcome text;
    write   text;
    wrong   text[] := '{}';
BEGIN
    INSERT INTO idem_keys SELECT r.* FROM facts o, pg_temp.row_of(o, now() - interval '1 hour') AS r WHERE o.own AND o.state <> '-';
    FOR f IN SELECT * FROM facts WHERE call = 'idem_begin' OR NOT (facts.differs OR facts.same_owner OR facts.leased) ORDER BY n LOOP
        outcome := pg_temp.called(call, f);
        k := NULL;
        SELECT * INTO k FROM ONLY idem_keys WHERE key = 'table:' || f.n;
        write := CASE WHEN k.attempt = 1 THEN CASE f.state WHEN '-' THEN 'insert' ELSE 'restart' END
                      WHEN k.attempt = 4 THEN 'next_attempt'
                      WHEN k.state = 'd' AND f.state = 'p' THEN 'mark_in_doubt'
                      WHEN k.lease_until > now() + interval '8 hours' THEN 'renew'
                      WHEN k.attempt = 3 AND k.state = f.state::"char" THEN 'none' END;
        IF call IN ('idem_claim', 'idem_claim_many') AND f.outcome <> 'completed' THEN
            f.write := CASE WHEN f.outcome IN ('in_flight', 'in_doubt') THEN 'none' ELSE f.write END;
            f.outcome := CASE WHEN f.outcome IN ('in_flight', 'in_doubt') THEN 'held' ELSE 'granted' END;
        END IF;
        IF (outcome, write) IS DISTINCT FROM (f.outcome, f.write) THEN
            wrong := wrong || format('line %s, %s %s: %s %s', f.line, f.state, f.given, outcome, write);
        END IF;
    END LOOP;
    RETURN concat_ws(E'\n', VARIADIC wrong);
END
$$;

\set call idem_begin
BEGIN;
SELECT pg_temp.surprises(:'call') AS surprises \gset
ROLLBACK;
SELECT is(:'surprises', ''::text, :'call');
\set call idem_try_claim
BEGIN;
SELECT pg_temp.surprises(:'call') AS surprises \gset
ROLLBACK;
SELECT is(:'surprises', ''::text, :'call');
\set call idem_claim
BEGIN;
SELECT pg_temp.surprises(:'call') AS surprises \gset
ROLLBACK;
SELECT is(:'surprises', ''::text, :'call');
\set call idem_claim_many
BEGIN;
SELECT pg_temp.surprises(:'call') AS surprises \gset
ROLLBACK;
SELECT is(:'surprises', ''::text, :'call');

SELECT cmp_ok((SELECT count(*) FROM facts), '>', 400::bigint, 'combinations_of_rows');
CALL pg_temp.clean('table:');
SELECT is((SELECT count(*) FROM idem_keys WHERE starts_with(key, 'table:')), 0::bigint, 'nothing_stays');
SELECT * FROM finish();
