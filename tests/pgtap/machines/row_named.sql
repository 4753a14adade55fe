-- ID003 and ID004 name the row: by the columns of its key that the caller may SELECT.
\ir ../include/helpers.psql
SELECT plan(17);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS named CASCADE;
DROP ROLE IF EXISTS tap_named;
DELETE FROM idem_machines WHERE starts_with(name, 'named:');
CREATE SCHEMA named;
SELECT idem_machine_define('named:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE TABLE named.orders (tenant text, "Order" int, s text DEFAULT 'a', note text, PRIMARY KEY (tenant, "Order"));
SELECT idem_machine_attach('named.orders', 's', 'named:m');
SELECT optimistic_enable('named.orders');
INSERT INTO named.orders SELECT 'acme', n FROM generate_series(1, 500) n;

-- What the error of a statement says of the row.
CREATE FUNCTION pg_temp.row_of(statement text, role name DEFAULT current_user) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE statement;
    RESET ROLE;
    RETURN 'no error';
EXCEPTION WHEN SQLSTATE 'ID003' OR SQLSTATE 'ID004' THEN
    GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' ', SQLSTATE, substring(said FROM 'The row has the key .*'));
END $$;

SELECT is(pg_temp.row_of($$ UPDATE named.orders SET s = CASE "Order" WHEN 321 THEN 'a b' ELSE 'b' END $$), 'ID003 The row has the key (tenant, "Order")=(acme, 321).', 'one_of_500_rows');
SELECT is(pg_temp.row_of($$ INSERT INTO named.orders SELECT 'acme', n, CASE n WHEN 700 THEN 'b' ELSE 'a' END FROM generate_series(600, 800) n $$),
    'ID003 The row has the key (tenant, "Order")=(acme, 700).', 'one_of_200_new_rows');
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET version = CASE "Order" WHEN 321 THEN 9 ELSE version + 1 END $$), 'ID004 The row has the key (tenant, "Order")=(acme, 321).', 'stale_version');
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET version = NULL WHERE "Order" = 7 $$), 'ID004 The row has the key (tenant, "Order")=(acme, 7).', 'null_version');
SELECT is(pg_temp.row_of($$ SELECT idem_check_transition('named:m', 'b', 'a') $$), 'ID003', 'no_row_to_name');

-- Columns that the caller may not read are not shown.
CREATE ROLE tap_named;
GRANT USAGE ON SCHEMA named TO tap_named;
GRANT UPDATE, INSERT ON named.orders TO tap_named;
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET s = 'c' $$, 'tap_named'), 'ID003', 'nothing_readable');
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET version = 9 $$, 'tap_named'), 'ID004', 'nor_for_a_version');
GRANT SELECT ("Order", note) ON named.orders TO tap_named;
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET s = 'c' WHERE "Order" = 321 $$, 'tap_named'), 'ID003 The row has the key ("Order")=(321).', 'readable_column');
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET version = 9 WHERE "Order" = 321 $$, 'tap_named'), 'ID004 The row has the key ("Order")=(321).', 'and_for_a_version');
GRANT SELECT ON named.orders TO tap_named;
SELECT is(pg_temp.row_of($$ INSERT INTO named.orders VALUES ('other', 1, 'b') $$, 'tap_named'), 'ID003 The row has the key (tenant, "Order")=(other, 1).', 'all_readable');

-- Nor rows that a policy may hide.
ALTER TABLE named.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON named.orders FOR UPDATE TO tap_named USING (true);
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET s = 'c' $$, 'tap_named'), 'ID003', 'hidden_row_is_not_named');
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET version = 9 $$, 'tap_named'), 'ID004', 'nor_by_the_version_guard');
CREATE POLICY q ON named.orders FOR SELECT TO tap_named USING ("Order" = 321);
SELECT is(pg_temp.row_of($$ UPDATE named.orders SET s = 'c' WHERE "Order" = 321 $$, 'tap_named'), 'ID003', 'no_row_is_named_under_row_security');

-- Values of types that somebody has made are not shown, but for enums.
CREATE TYPE named.color AS ENUM ('red');
CREATE TYPE named.pair AS (a int, b int);
CREATE TABLE named.types (e named.color, p named.pair, d date[], s text DEFAULT 'a', version int NOT NULL DEFAULT 1, PRIMARY KEY (e, p, d));
SELECT idem_machine_attach('named.types', 's', 'named:m');
SELECT optimistic_enable('named.types');
INSERT INTO named.types VALUES ('red', '(1,2)', '{2026-01-02}');
SELECT is(pg_temp.row_of($$ UPDATE named.types SET s = 'c' $$), 'ID003 The row has the key (e, d)=(red, {2026-01-02}).', 'built_in_types_and_enums');
SELECT is(pg_temp.row_of($$ UPDATE named.types SET version = 9 $$), 'ID004 The row has the key (e, d)=(red, {2026-01-02}).', 'for_a_version_too');
CREATE TABLE named.loose (id int, s text DEFAULT 'a', version int NOT NULL DEFAULT 1);
SELECT idem_machine_attach('named.loose', 's', 'named:m');
INSERT INTO named.loose VALUES (1);
SELECT is(pg_temp.row_of($$ UPDATE named.loose SET s = 'c' $$), 'ID003', 'table_without_a_key');
CREATE UNIQUE INDEX ON named.loose (id);
ALTER TABLE named.loose ALTER id SET NOT NULL;
SELECT is(pg_temp.row_of($$ UPDATE named.loose SET s = 'c' $$), 'ID003 The row has the key (id)=(1).', 'unique_key');
DROP SCHEMA named CASCADE;
DROP ROLE tap_named;
SELECT * FROM finish();
