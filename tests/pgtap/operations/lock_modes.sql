-- The table of lock modes in docs/operations.md: what each call locks, of the caller's table and of idem's. ACCESS SHARE is not in it.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(3);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS locks_seen CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'lock modes:');
CREATE SCHEMA locks_seen;
\set page `cat docs/operations.md`

-- The rows of the page: the first cell names calls in backquotes, or says in words what they do.
CREATE TEMP TABLE shown AS
    SELECT btrim(part[1]) AS call, btrim(part[2]) AS target, btrim(part[3]) AS of_idem
      FROM regexp_matches(:'page', '<!-- lock modes -->\n((?:\|[^\n]*\n)+)') AS found,
           regexp_split_to_table(found[1], '\n') WITH ORDINALITY AS l (line, n),
           regexp_match(line, '^\|([^|]*)\|([^|]*)\|([^|]*)\|') AS part
     WHERE n > 2 AND part IS NOT NULL;

CREATE TABLE locks_seen.item (id int PRIMARY KEY, name text, quantity int);
CREATE INDEX ON locks_seen.item (name);
INSERT INTO locks_seen.item VALUES (1, 'a', 5);
CREATE TABLE locks_seen.versioned (id int PRIMARY KEY, name text);
INSERT INTO locks_seen.versioned VALUES (1, 'a');
SELECT optimistic_enable('locks_seen.versioned');
CREATE TABLE locks_seen.prepared (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1);
CREATE TABLE locks_seen.moved (id int PRIMARY KEY, state text);
INSERT INTO locks_seen.moved VALUES (1, 'a');
SELECT idem_machine_define('lock modes:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT idem_machine_attach('locks_seen.moved', 'state', 'lock modes:m', validate => false);
SELECT idem_claim('lock modes: done'), idem_forget('lock modes: fresh'), idem_scope_drop('lock modes:scope');

CREATE TEMP TABLE calls (call text, statement text);
INSERT INTO calls VALUES
    ('`idem_claim`, `idem_begin`, `idem_execute`, `idem_claim_many`, a new key', 'SELECT idem_claim(''lock modes: fresh'')'),
    ('the same, a duplicate', 'SELECT idem_claim(''lock modes: done'')'),
    ('`idem_lookup`, `idem_is_owner`, `idem_in_flight`, `idem_health`', 'SELECT count(*) FROM idem_lookup(''lock modes: done'')'),
    ('`idem_token_redeem`', 'SELECT idem_token_redeem(idem_token_issue())'),
    ('`idem_lock`', 'SELECT idem_lock(''lock modes'')'),
    ('`idem_hit`', 'SELECT idem_hit(''lock modes'')'),
    ('`idem_allow`', 'SELECT idem_allow(''lock modes'', 1, 1)'),
    ('`idem_publish`', 'SELECT idem_publish(''lock modes'', ''1'')'),
    ('`idem_scope_set`', 'SELECT idem_scope_set(''lock modes:scope'', ttl => ''1 day'')'),
    ('`idem_next_id`, `idem_token_issue`', 'SELECT idem_next_id(), idem_token_issue()'),
    ('`optimistic_update`, `conditional_update`, `conditional_adjust`', 'SELECT conditional_adjust(''locks_seen.item'', ''{"id": 1}'', ''quantity'', 1)'),
    ('`unique_insert`, `guarded_insert`', 'SELECT unique_insert(''locks_seen.item'', ''{"id": 2}'')'),
    ('`pessimistic_lock`, `pessimistic_lock_many`', 'SELECT pessimistic_lock(''locks_seen.item'', ''{"id": 1}'')'),
    ('`idem_transition`', 'SELECT idem_transition(''locks_seen.moved'', ''{"id": 1}'', ''a'', ''b'')'),
    ('`optimistic_enable`, the column is missing', 'SELECT optimistic_enable(''locks_seen.item'')'),
    ('`optimistic_enable`, the column is there', 'SELECT optimistic_enable(''locks_seen.prepared'')'),
    ('`optimistic_disable`', 'SELECT optimistic_disable(''locks_seen.versioned'')'),
    ('`idem_machine_attach`, with or without validation', 'SELECT idem_machine_attach(''locks_seen.item'', ''name'', ''lock modes:m'')'),
    ('`idem_machine_validate`', 'SELECT idem_machine_validate(''locks_seen.moved'', ''state'')'),
    ('`idem_machine_detach`', 'SELECT idem_machine_detach(''locks_seen.moved'', ''state'')'),
    ('`idem_machine_define` of a machine that is attached', 'SELECT idem_machine_define(''lock modes:m'', ''{"initial": ["a"], "transitions": {"a": ["b", "c"]}}'')');

-- The strongest mode on each table, of the caller's and of idem's. In a subtransaction, whose locks end with it.
CREATE FUNCTION pg_temp.locks_of(statement text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    seen text[];
BEGIN
    EXECUTE statement;
    WITH strengths (mode, name, strength) AS (
        VALUES ('RowShareLock', 'ROW SHARE', 2), ('RowExclusiveLock', 'ROW EXCLUSIVE', 3), ('ShareUpdateExclusiveLock', 'SHARE UPDATE EXCLUSIVE', 4),
               ('ShareLock', 'SHARE', 5), ('ShareRowExclusiveLock', 'SHARE ROW EXCLUSIVE', 6), ('ExclusiveLock', 'EXCLUSIVE', 7),
               ('AccessExclusiveLock', 'ACCESS EXCLUSIVE', 8)),
    strongest AS (
        SELECT DISTINCT ON (c.oid) c.oid, relname, relnamespace = 'locks_seen'::regnamespace AS is_target, name
          FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN strengths USING (mode)
         WHERE pid = pg_backend_pid() AND granted AND relkind = 'r' AND relnamespace IN ('locks_seen'::regnamespace, 'idem'::regnamespace)
         ORDER BY c.oid, strength DESC)
    SELECT ARRAY[coalesce(string_agg(DISTINCT name, ', ') FILTER (WHERE is_target), '–'),
                 coalesce(string_agg(format('%s on `%s`', name, relname), ', ' ORDER BY relname) FILTER (WHERE NOT is_target), '–')] INTO seen FROM strongest;
    RAISE EXCEPTION USING errcode = 'LOCKS', message = array_to_string(seen, '|');
EXCEPTION WHEN SQLSTATE 'LOCKS' THEN
    RETURN string_to_array(SQLERRM, '|');
END $$;

-- Each in a transaction of its own.
CREATE TEMP TABLE seen (call text, locks text[]);
SELECT format('INSERT INTO seen SELECT %L, pg_temp.locks_of(%L)', call, statement) FROM calls \gexec

SELECT isnt((SELECT count(*) FROM shown), 0::bigint, 'the_page_has_the_table');
SELECT is((SELECT array_agg(call ORDER BY call) FROM shown WHERE call NOT LIKE '%CALL%'), (SELECT array_agg(call ORDER BY call) FROM calls), 'each_line_is_tried');
SELECT is((SELECT string_agg(format('%s: %s; %s', call, locks[1], locks[2]), E'\n' ORDER BY call) FROM seen),
          (SELECT string_agg(format('%s: %s; %s', call, target, of_idem), E'\n' ORDER BY call) FROM shown WHERE call NOT LIKE '%CALL%'), 'the_modes_are_those_of_the_page');

DROP SCHEMA locks_seen CASCADE;
SELECT idem_machine_drop('lock modes:m'), idem_forget('lock modes: done');
SELECT * FROM finish();
