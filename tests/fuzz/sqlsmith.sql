-- What sqlsmith is let loose on: idem, tables of odd values that it can draw arguments from, and catalogs that show it hardly
-- anything else. It asks for pg_proc by its bare name: a view of that name, earlier in its search_path, makes most of its calls
-- calls of idem. The database is good for nothing else.
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
CREATE SCHEMA smith;
CREATE ROLE smith_operator LOGIN;
SET search_path = smith, idem, pg_catalog;

-- --- Rows -----------------------------------------------------------------------------------------------------------------

CREATE TABLE item (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1, quantity numeric NOT NULL DEFAULT 10, state text, note text);
CREATE INDEX ON item (note);
INSERT INTO item (id, state, note) SELECT n, 'a', 'note ' || n % 7 FROM generate_series(1, 20) AS n;
SELECT optimistic_enable('item');
SELECT idem_machine_define('machine', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["a"]}}');
SELECT idem_machine_attach('item', 'state', 'machine', log => true);
SELECT idem_scope_set('manual', on_lease_expiry => 'manual');

SELECT idem_claim('claimed ' || n) FROM generate_series(1, 5) AS n;
SELECT idem_begin('lapsed ' || n, lease => '1 us') FROM generate_series(1, 5) AS n;
SELECT idem_begin('doubtful ' || n, lease => '1 us', scope => 'manual') FROM generate_series(1, 2) AS n;
SELECT idem_hit('counted', '1 hour');

-- NULL comes by itself. Lists, so that a column has as many values as the longest of them.
CREATE TABLE value AS
SELECT given.*, given.state AS from_state, given.state AS to_state, leased.fence, locked.fence AS lock_fence, t.token
  FROM unnest(ARRAY['leased', 'leased 2', 'lapsed 1', 'claimed 1', 'new', '', 'machine', repeat('x', 1025)],
              ARRAY['', '', '', 'manual', 'owned', repeat('x', 255)],
              ARRAY['lock', 'lock', 'new lock'],
              ARRAY['a', 'b', 'c'],
              ARRAY['machine', 'machine', 'new machine', ''],
              ARRAY[true, false],
              ARRAY['completed', 'released', 'takeover', 'manual', 'idem_keys', 'idem_tokens', 'idem_locks'],
              ARRAY['SELECT 1 AS one', 'SELECT $1 AS a', 'SELECT * FROM smith.item', 'UPDATE smith.item SET note = $1 WHERE id = 1 RETURNING id', 'SELECT 1/0', 'COMMIT', ''],
              ARRAY[interval '1 hour', '1 us', '0', '-1 day', '178000000 years', '7 days'],
              ARRAY['{"id": 1}', '{"id": 2}', '{"note": "x"}', '{"id": 99, "state": "a"}', '{}', '[]', 'null', '{"quantity": 1e400}',
                    '{"initial": ["a"], "transitions": {"a": ["b", "c"], "b": ["a"]}}']::jsonb[],
              ARRAY['item'::regclass, 'item', 'item_note_idx', 'pg_catalog.pg_class', 'idem.idem_keys', 0::oid::regclass, 4294967295::oid::regclass],
              ARRAY['quantity', 'state', 'version', 'note', 'id', 'nothing']::name[],
              ARRAY[1::bigint, 0, -1, 9223372036854775807, -9223372036854775808],
              ARRAY[1, 0, -1, 2147483647, -2147483648],
              ARRAY[1::numeric, -1, 0, 'NaN', 'Infinity', 1e400],
              ARRAY['\x', '\x01', decode(repeat('ff', 255), 'hex'), decode(repeat('00', 256), 'hex')],
              ARRAY['smith_operator'::regrole, '-', 4294967295::oid::regrole],
              ARRAY[uuid '00000000-0000-0000-0000-000000000000'],
              ARRAY[date 'infinity', '-infinity', '2024-02-29'])
         AS given (key, scope, name, state, machine, flag, word, statement, span, document, target, column_name, big, small, number, bytes, role, identifier, day),
       LATERAL (SELECT (idem_begin('leased', lease => '1 hour', owner => 'o')).fence OFFSET 0) AS leased,
       LATERAL (SELECT idem_lock('lock', '1 hour', 'o') AS fence OFFSET 0) AS locked,
       LATERAL (SELECT idem_token_issue('', '1 hour') AS token OFFSET 0) AS t;
CREATE TABLE list AS
SELECT * FROM unnest(ARRAY['new 1', 'new 2', NULL]) AS one,
       (VALUES ('{}'::text[], '{}'::name[], '{}'::jsonb[]), ('{new 1,new 2}', '{id}', ARRAY['{"id": 1}', '{"id": 2}']::jsonb[]), ('{NULL}', '{note}', '{NULL}'),
               ('{{a,b},{c,d}}', '{id,note}', ARRAY[['{"id": 1}'], ['{"id": 3}']]::jsonb[])) AS lists (keys, columns, documents);

-- --- Functions ------------------------------------------------------------------------------------------------------------

-- sqlsmith calls no function that returns a set, and knows no value of type "any".
CREATE VIEW extension_function AS
    SELECT p.* FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
     WHERE d.refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'idem');
-- Most of its arguments are NULL, and an error ends the whole query. So it is given, besides each function itself, one that puts
-- other values in NULL's place, and goes on after an error that bad values explain.
CREATE FUNCTION argument(number int, type regtype, name text, function text) RETURNS text LANGUAGE sql AS $$
    SELECT format('coalesce($%s, (SELECT v.%I FROM %s AS v WHERE v.%2$I IS NOT NULL ORDER BY random() LIMIT 1))', number, chosen,
                  CASE WHEN chosen IN ('keys', 'columns', 'documents') THEN 'smith.list' ELSE 'smith.value' END)
      FROM (SELECT CASE WHEN name = 'fence' AND function ~ 'lock|fence' THEN 'lock_fence'
                        WHEN name = 'name' AND function ~ 'machine' OR name = 'machine' THEN 'machine'
                        WHEN name IN (SELECT attname FROM pg_attribute WHERE attrelid = 'smith.value'::regclass)
                             AND type = (SELECT atttypid FROM pg_attribute WHERE attrelid = 'smith.value'::regclass AND attname = name) THEN name
                        ELSE CASE type::text WHEN 'text' THEN 'word' WHEN 'interval' THEN 'span' WHEN 'jsonb' THEN 'document' WHEN 'name' THEN 'column_name'
                                  WHEN 'bigint' THEN 'big' WHEN 'integer' THEN 'small' WHEN 'numeric' THEN 'number' WHEN 'bytea' THEN 'bytes' WHEN 'regrole' THEN 'role'
                                  WHEN 'regclass' THEN 'target' WHEN 'boolean' THEN 'flag' WHEN 'text[]' THEN 'keys' WHEN 'name[]' THEN 'columns' WHEN 'jsonb[]' THEN 'documents' END
                   END) AS choice (chosen)
$$;
DO $$
DECLARE
    called record;
BEGIN
    FOR called IN SELECT proname, prosrc, proretset, oidvectortypes(proargtypes) AS types,
                         (SELECT string_agg(smith.argument(n, proargtypes[n - 1], proargnames[n], proname), ', ') FROM generate_series(1, pronargs) AS n) AS arguments
                    FROM extension_function
                   WHERE prokind = 'f' AND prorettype <> 'trigger'::regtype AND proname <> 'idem_key' AND (pronargs > 0 OR proretset) LOOP
        EXECUTE format('CREATE FUNCTION smith.some_%I(%s) RETURNS text LANGUAGE plpgsql AS %L', called.proname, called.types,
                       format($body$
BEGIN
    RETURN (SELECT string_agg(r::text, ' ') FROM idem.%I(%s) AS r);
EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE ~ '^(XX|58)' THEN
        RAISE;
    END IF;
    RETURN SQLSTATE;
END
$body$, called.proname, called.arguments));
    END LOOP;
END $$;
CREATE FUNCTION key_of(text, bigint, numeric, boolean, uuid, date, name) RETURNS text LANGUAGE sql AS 'SELECT idem.idem_key($1, $2, $3, $4, $5, $6, $7::text)';
CREATE FUNCTION key_of(text[]) RETURNS text LANGUAGE sql AS 'SELECT idem.idem_key(VARIADIC $1)';

CREATE VIEW smith.pg_proc AS
    -- idem_health takes its time.
    SELECT p.oid, p.proname, p.pronamespace, p.prorettype, p.proargtypes, p.proretset, p.prokind
      FROM pg_catalog.pg_proc p
     WHERE p.pronamespace = 'smith'::regnamespace AND p.proname NOT IN ('argument', 'some_idem_health')
        OR p.oid IN (SELECT oid FROM extension_function WHERE prokind = 'f' AND proname NOT IN ('idem_key', 'idem_health'))
        OR p.oid = ANY (ARRAY['lower(text)', 'md5(text)', 'length(text)', 'abs(bigint)', 'round(numeric)', 'now()', 'justify_hours(interval)', 'gen_random_uuid()',
                              'jsonb_array_length(jsonb)', 'jsonb_typeof(jsonb)', 'quote_literal(text)', 'count()', 'max(bigint)', 'min(text)', 'bool_and(boolean)']::regprocedure[]);
-- It takes operators of polymorphic types for operators of all types: most queries with one are refused before they run. Those
-- of operator classes stay, the planner counts on them (btree and hash).
SET allow_system_table_mods = on;
DELETE FROM pg_operator o USING pg_type t
 WHERE t.oid IN (o.oprleft, o.oprright) AND (t.typtype IN ('r', 'm') OR t.typname ~ 'range$')
   AND NOT EXISTS (SELECT FROM pg_amop JOIN pg_am am ON am.oid = amopmethod WHERE amopopr = o.oid AND amname IN ('btree', 'hash'));
RESET allow_system_table_mods;

SELECT idem_grant('smith_operator', operator => true);
GRANT USAGE ON SCHEMA smith TO smith_operator;
GRANT ALL ON ALL TABLES IN SCHEMA smith TO smith_operator;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA smith TO smith_operator;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = smith, idem, pg_catalog', current_database()); END $$;
