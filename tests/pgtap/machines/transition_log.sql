-- idem_transition_log: one row for each move, written by the guard, whoever moves the row.
\ir ../include/helpers.psql
SELECT plan(25);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS logged CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'log:');
DELETE FROM idem_transition_log WHERE starts_with(target, 'logged.');
CREATE SCHEMA logged;
SELECT idem_machine_define('log:m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"], "c": ["a"]}}');

-- What the log says of a table, in the order in which it was written; forgets it.
CREATE FUNCTION pg_temp.history(named text) RETURNS text LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM idem.idem_transition_log WHERE target = named RETURNING *)
    SELECT string_agg(format('%s %s %s>%s', key, state_column, from_state, to_state), ', ' ORDER BY at, key) FROM gone
$$;

CREATE TABLE logged.t (id int PRIMARY KEY, s text, note text);
SELECT idem_machine_attach('logged.t', 's', 'log:m', log => true);
INSERT INTO logged.t VALUES (1, 'a'), (2, 'a');
UPDATE logged.t SET s = 'b';
UPDATE logged.t SET note = 'x';
UPDATE logged.t SET s = s;
UPDATE logged.t SET s = 'c', id = 20 WHERE id = 2;
DELETE FROM logged.t WHERE id = 20;
SELECT is(pg_temp.history('logged.t'),
    '{"id": 1} s >a, {"id": 2} s >a, {"id": 1} s a>b, {"id": 2} s a>b, {"id": 20} s b>c', 'insertions_and_moves_and_nothing_else');
SELECT is(pg_temp.state_of($$ UPDATE logged.t SET s = 'a' $$), 'ID003', 'refused_move');
SELECT is(pg_temp.history('logged.t'), NULL, 'is_not_logged');
BEGIN;
UPDATE logged.t SET s = 'c';
SELECT is((SELECT count(*)::int FROM idem_transition_log WHERE target = 'logged.t'), 1, 'visible_in_its_transaction');
SELECT ok(at > now() AND at <= clock_timestamp(), 'time_is_the_clocks') FROM idem_transition_log WHERE target = 'logged.t';
SELECT is(by, current_user::text, 'by_the_current_user') FROM idem_transition_log WHERE target = 'logged.t';
ROLLBACK;
SELECT is(pg_temp.history('logged.t'), NULL, 'rolled_back_with_it');
BEGIN;
SET LOCAL quote_all_identifiers = on;
CREATE TABLE logged.q (id int PRIMARY KEY, s text);
SELECT idem_machine_attach('logged.q', 's', 'log:m', log => true);
INSERT INTO logged.q VALUES (1, 'a');
SELECT is(pg_temp.history('logged.q'), '{"id": 1} s >a', 'under_the_same_name_whatever_the_session_quotes');
ROLLBACK;
SELECT idem_machine_detach('logged.t', 's');
UPDATE logged.t SET s = 'c';
SELECT is(pg_temp.history('logged.t'), NULL, 'detached');

-- Without a log.
SELECT idem_machine_attach('logged.t', 's', 'log:m');
UPDATE logged.t SET s = 'a';
SELECT is(pg_temp.history('logged.t'), NULL, 'not_logged_unless_asked');

-- Keys: several columns, their types, odd names, a unique index where there is no primary key.
CREATE TYPE logged.e AS ENUM ('a', 'b', 'c');
CREATE TABLE logged."Odd ""t'" ("K 1" text, at date, u uuid, "S t" logged.e, PRIMARY KEY (at, "K 1", u));
SELECT idem_machine_attach('logged."Odd ""t''"', 'S t', 'log:m', true);
INSERT INTO logged."Odd ""t'" VALUES ('q"\', '2026-01-02', '00000000-0000-0000-0000-000000000001', 'a');
SELECT is(pg_temp.history('logged."Odd ""t''"'), '{"u": "00000000-0000-0000-0000-000000000001", "at": "2026-01-02", "K 1": "q\"\\"} S t >a', 'odd_names_and_keys');
CREATE TABLE logged.u (v int, id int NOT NULL UNIQUE, s text, partial int NOT NULL);
CREATE UNIQUE INDEX ON logged.u (partial) WHERE partial > 0;
SELECT idem_machine_attach('logged.u', 's', 'log:m', true);
INSERT INTO logged.u VALUES (1, 7, 'a', 1);
SELECT is(pg_temp.history('logged.u'), '{"id": 7} s >a', 'unique_index_serves_as_key');
ALTER TABLE logged.u DROP CONSTRAINT u_id_key;
SELECT is(pg_temp.state_of($$ UPDATE logged.u SET s = 'b' $$), '42P10', 'key_that_is_gone');

-- Rows that move between partitions are one move, named by the partitioned table.
CREATE TABLE logged.p (id int, k int, s text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE logged.p1 PARTITION OF logged.p FOR VALUES IN (1);
CREATE TABLE logged.p2 (s text, k int NOT NULL, id int NOT NULL);
ALTER TABLE logged.p ATTACH PARTITION logged.p2 FOR VALUES IN (2);
SELECT idem_machine_attach('logged.p', 's', 'log:m', true);
INSERT INTO logged.p VALUES (1, 1, 'a'), (2, 2, 'a');
UPDATE logged.p SET s = 'b', k = 3 - k;
UPDATE logged.p SET k = 3 - k;
UPDATE logged.p SET s = 'c' WHERE id = 1;
SELECT is(pg_temp.history('logged.p'),
    '{"k": 1, "id": 1} s >a, {"k": 2, "id": 2} s >a, {"k": 2, "id": 1} s a>b, {"k": 1, "id": 2} s a>b, {"k": 1, "id": 1} s b>c', 'moved_rows');

-- As long as keys get, with the index that finds them.
CREATE TABLE logged.wide (a text, b text, c text, s text, PRIMARY KEY (a, b, c));
SELECT idem_machine_attach('logged.wide', 's', 'log:m', true);
-- Some 800 bytes of text that does not compress in each column: the B-tree takes that, three of them as jsonb it would not.
INSERT INTO logged.wide
SELECT string_agg(md5(i::text), ''), string_agg(md5((100 + i)::text), ''), string_agg(md5((200 + i)::text), ''), 'a' FROM generate_series(1, 26) i;
SELECT is((SELECT count(*)::int FROM idem_transition_log l, logged.wide w
            WHERE l.key = jsonb_build_object('a', a, 'b', b, 'c', c)), 1, 'long_key');

-- The caller needs no privilege on the log, and its triggers and policies have no say.
CREATE ROLE tap_logger;
GRANT USAGE ON SCHEMA logged TO tap_logger;
CREATE TABLE logged.mine (id int PRIMARY KEY, s text);
SELECT idem_machine_attach('logged.mine', 's', 'log:m', true);
GRANT ALL ON logged.mine TO tap_logger;
SELECT is(pg_temp.state_as('tap_logger', 'SELECT * FROM idem.idem_transition_log'), '42501', 'log_is_closed');
SELECT is(pg_temp.state_as('tap_logger', $$ INSERT INTO logged.mine VALUES (1, 'a') $$), 'ok', 'and_written');
SELECT is((SELECT by FROM idem_transition_log WHERE target = 'logged.mine'), 'tap_logger', 'in_the_name_of_who_moved_the_row');

-- Temporary tables may be written in a read-only transaction, the log may not.
CREATE TEMP TABLE temporary (id int PRIMARY KEY, s text);
SELECT idem_machine_attach('temporary', 's', 'log:m', true);
BEGIN READ ONLY;
SELECT is(pg_temp.state_of($$ INSERT INTO temporary VALUES (1, 'a') $$), '25006', 'read_only_transaction');
ROLLBACK;

-- Other triggers of the same statement see what was logged.
CREATE TABLE logged.seen (rows bigint);
CREATE FUNCTION logged.look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO logged.seen SELECT count(*) FROM idem.idem_transition_log WHERE target = 'logged.mine';
    RETURN NULL;
END $$;
CREATE TRIGGER zz_look AFTER UPDATE ON logged.mine FOR EACH ROW EXECUTE FUNCTION logged.look();
UPDATE logged.mine SET s = 'b';
SELECT is((SELECT rows FROM logged.seen), 2::bigint, 'seen_by_the_next_trigger');
DROP TRIGGER zz_look ON logged.mine;
SELECT pg_temp.history('logged.mine');
UPDATE logged.mine SET s = 'c';
UPDATE logged.mine SET s = 'a';
SELECT pg_temp.history('logged.mine');

-- Savepoints, and the rows of one statement.
BEGIN;
INSERT INTO logged.mine VALUES (2, 'a');
SAVEPOINT s;
UPDATE logged.mine SET s = 'b';
ROLLBACK TO s;
UPDATE logged.mine SET s = 'b' WHERE id = 2;
COMMIT;
SELECT is(pg_temp.history('logged.mine'), '{"id": 2} s >a, {"id": 2} s a>b', 'savepoint_takes_its_moves_back');
INSERT INTO logged.mine SELECT i, 'a' FROM generate_series(10, 1009) i;
SELECT is((SELECT count(DISTINCT key)::int FROM idem_transition_log WHERE target = 'logged.mine'), 1000, 'many_rows');

-- An index that somebody added is kept up to date.
CREATE INDEX tap_log_by_target ON idem_transition_log (target);
UPDATE logged.mine SET s = 'b' WHERE id = 10;
SET enable_seqscan = off;
SELECT is((SELECT count(*)::int FROM idem_transition_log WHERE target = 'logged.mine' AND from_state IS NOT NULL), 1, 'added_index');
RESET enable_seqscan;
DROP INDEX tap_log_by_target;

-- A constraint that the guard would not check is refused.
ALTER TABLE idem_transition_log ADD CONSTRAINT tap_check CHECK (to_state <> 'x');
SELECT is(pg_temp.state_of($$ UPDATE logged.mine SET s = 'b' WHERE id = 11 $$), '55000', 'check_constraint_on_the_log');
ALTER TABLE idem_transition_log DROP CONSTRAINT tap_check;
SELECT is(pg_temp.state_of($$ UPDATE logged.mine SET s = 'b' WHERE id = 11 $$), 'ok', 'and_without_it_again');

DROP SCHEMA logged CASCADE;
DROP TABLE temporary;
DROP ROLE tap_logger;
DELETE FROM idem_machines WHERE starts_with(name, 'log:');
DELETE FROM idem_transition_log WHERE starts_with(target, 'logged.') OR target ~ 'temporary';
SELECT * FROM finish();
