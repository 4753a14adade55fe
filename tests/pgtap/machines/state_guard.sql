-- The guard: whatever writes the row, by whatever way, a transition that the machine lacks is ID003.
\ir ../include/helpers.psql
SELECT plan(72);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS guard CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'guard:');
CREATE SCHEMA guard;
SELECT idem_machine_define('guard:m', '{"initial": ["new", "draft"], "transitions": {"new": ["paid", "void"], "draft": ["new", "draft"], "paid": ["sent"], "sent": []}}');
CREATE TABLE guard.t (id int PRIMARY KEY, s text, note text);
SELECT idem_machine_attach('guard.t', 's', 'guard:m');

CREATE FUNCTION pg_temp.error_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text; relation text; state_column text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, relation = TABLE_NAME, state_column = COLUMN_NAME;
    RETURN concat_ws(' | ', SQLSTATE, SQLERRM, detail, relation, state_column);
END $$;

-- INSERT
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (1, 'new'), (2, 'draft') $$), 'ok', 'insert_in_initial_states');
SELECT is(pg_temp.error_of($$ INSERT INTO guard.t VALUES (3, 'paid') $$),
    'ID003 | state "paid" is not an initial state | State machine "guard:m" starts in: "new", "draft". The row has the key (id)=(3). | t | s', 'insert_in_another_state');
SELECT is(pg_temp.error_of($$ INSERT INTO guard.t VALUES (3, 'nonsense') $$),
    'ID003 | state "nonsense" is not an initial state | State machine "guard:m" starts in: "new", "draft". The row has the key (id)=(3). | t | s', 'insert_in_no_state');
SELECT is(pg_temp.error_of($$ INSERT INTO guard.t VALUES (3) $$),
    'ID003 | state of a new row must not be null | State machine "guard:m" starts in: "new", "draft". The row has the key (id)=(3). | t | s', 'insert_of_null');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (3, '') $$), 'ID003', 'insert_of_the_empty_text');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (3, 'new'), (4, 'new'), (5, 'paid') $$), 'ID003', 'one_bad_row_of_many');
SELECT is((SELECT count(*)::int FROM guard.t), 2, 'leaves_none');

-- UPDATE
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'paid' WHERE id = 1 $$), 'ok', 'update_by_a_transition');
SELECT is(pg_temp.error_of($$ UPDATE guard.t SET s = 'new' WHERE id = 1 $$),
    'ID003 | transition from "paid" to "new" is not allowed | From "paid", state machine "guard:m" can reach: "sent". The row has the key (id)=(1). | t | s', 'update_by_no_transition');
SELECT is(pg_temp.error_of($$ UPDATE guard.t SET s = NULL WHERE id = 1 $$),
    'ID003 | transition from "paid" to null is not allowed | From "paid", state machine "guard:m" can reach: "sent". The row has the key (id)=(1). | t | s', 'update_to_null');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'Sent' WHERE id = 1 $$), 'ID003', 'states_are_compared_exactly');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'sent ' WHERE id = 1 $$), 'ID003', 'trailing_blanks_too');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = s, note = 'x' $$), 'ok', 'same_state_without_a_self_loop');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET note = 'y' $$), 'ok', 'other_columns');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'new' $$), 'ID003', 'one_bad_row_of_many_updates');
SELECT is((SELECT string_agg(s, ' ' ORDER BY id) FROM guard.t), 'paid draft', 'leaves_all');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = CASE s WHEN 'paid' THEN 'sent' ELSE 'new' END $$), 'ok', 'each_row_by_its_own_transition');
SELECT is(pg_temp.error_of($$ UPDATE guard.t SET s = 'paid' WHERE id = 1 $$),
    'ID003 | transition from "sent" to "paid" is not allowed | State machine "guard:m" ends in "sent". The row has the key (id)=(1). | t | s', 'update_from_a_terminal_state');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET id = 10, s = 'void' WHERE id = 2 $$), 'ok', 'with_another_key');
SELECT is(pg_temp.state_of($$ DELETE FROM guard.t $$), 'ok', 'delete_from_any_state');

-- ON CONFLICT, MERGE, COPY, CTEs, PL/pgSQL, prepared statements
INSERT INTO guard.t VALUES (1, 'new'), (2, 'draft');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (1, 'new') ON CONFLICT (id) DO UPDATE SET s = 'paid' $$), 'ok', 'on_conflict_by_a_transition');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (1, 'new') ON CONFLICT (id) DO UPDATE SET s = excluded.s $$), 'ID003', 'on_conflict_by_no_transition');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (1, 'paid') ON CONFLICT DO NOTHING $$), 'ok', 'on_conflict_do_nothing');
\if :from_15
SELECT is(pg_temp.state_of($$ MERGE INTO guard.t USING (VALUES (1, 'sent'), (3, 'new')) v (id, s) ON t.id = v.id
    WHEN MATCHED THEN UPDATE SET s = v.s WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.s) $$), 'ok', 'merge_by_transitions');
SELECT is(pg_temp.state_of($$ MERGE INTO guard.t USING (VALUES (3, 'sent')) v (id, s) ON t.id = v.id WHEN MATCHED THEN UPDATE SET s = v.s $$), 'ID003', 'merge_by_no_transition');
SELECT is(pg_temp.state_of($$ MERGE INTO guard.t USING (VALUES (4, 'paid')) v (id, s) ON t.id = v.id WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.s) $$), 'ID003', 'merge_inserts_in_another_state');
\else
UPDATE guard.t SET s = 'sent' WHERE id = 1;
INSERT INTO guard.t VALUES (3, 'new');
SELECT skip('no MERGE before PostgreSQL 15', 3);
\endif
SELECT is(pg_temp.state_of($$ COPY guard.t FROM PROGRAM 'echo 20,new, && echo 21,draft,' WITH CSV $$), 'ok', 'copy_in_initial_states');
SELECT is(pg_temp.state_of($$ COPY guard.t FROM PROGRAM 'echo 22,new, && echo 23,paid,' WITH CSV $$), 'ID003', 'copy_in_another_state');
SELECT is(pg_temp.state_of($$ WITH moved AS (UPDATE guard.t SET s = 'paid' WHERE id = 20 RETURNING *) INSERT INTO guard.t SELECT 24, 'new' FROM moved $$), 'ok', 'writing_cte');
SELECT is(pg_temp.state_of($$ WITH moved AS (UPDATE guard.t SET s = 'sent' WHERE id = 21) SELECT $$), 'ID003', 'writing_cte_by_no_transition');
PREPARE move (text, int) AS UPDATE guard.t SET s = $1 WHERE id = $2;
EXECUTE move ('new', 21);
SELECT is(pg_temp.state_of($$ EXECUTE move ('sent', 21) $$), 'ID003', 'prepared_statement');

-- Other triggers: what they make of the row counts.
CREATE FUNCTION guard.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.s := TG_ARGV[0]; RETURN NEW; END $$;
CREATE TRIGGER zz_change BEFORE UPDATE ON guard.t FOR EACH ROW WHEN (NEW.note = 'to sent') EXECUTE FUNCTION guard.change('sent');
CREATE TRIGGER zz_make BEFORE INSERT ON guard.t FOR EACH ROW WHEN (NEW.note = 'to new') EXECUTE FUNCTION guard.change('new');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET note = 'to sent' WHERE id = 24 $$), 'ID003', 'before_trigger_moves_by_no_transition');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET note = 'to sent' WHERE id = 20 $$), 'ok', 'before_trigger_moves_by_a_transition');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.t VALUES (30, 'sent', 'to new') $$), 'ok', 'before_trigger_mends_the_insert');
CREATE FUNCTION guard.go_on() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE guard.t SET s = 'sent', note = NULL WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER a_go_on AFTER UPDATE ON guard.t FOR EACH ROW WHEN (NEW.note = 'go on') EXECUTE FUNCTION guard.go_on();
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'paid', note = 'go on' WHERE id = 30 $$), 'ok', 'after_trigger_moves_on');
SELECT is((SELECT s FROM guard.t WHERE id = 30), 'sent', 'and_the_row_is_there');

-- Toasted values, dropped columns.
ALTER TABLE guard.t DROP COLUMN note CASCADE, ADD COLUMN note text DEFAULT repeat('long', 10000);
SELECT is(pg_temp.state_of(format('UPDATE guard.t SET s = %L', repeat('x', 100000))), 'ID003', 'state_that_is_stored_elsewhere');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'paid' WHERE id = 24 $$), 'ok', 'after_columns_were_dropped_and_added');

-- Savepoints and exception blocks.
BEGIN;
SAVEPOINT s;
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'new' WHERE id = 24 $$), 'ID003', 'in_a_savepoint');
UPDATE guard.t SET s = 'sent' WHERE id = 24;
ROLLBACK TO s;
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'sent' WHERE id = 24 $$), 'ok', 'savepoint_gives_the_old_state_back');

-- Another definition holds within the transaction.
SELECT idem_machine_define('guard:m', '{"initial": ["new", "draft"], "transitions": {"new": ["paid", "void"], "draft": ["new"], "paid": ["sent"], "sent": ["new"]}}');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'new' WHERE id = 24 $$), 'ok', 'new_definition_in_the_same_transaction');
ROLLBACK;
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'new' WHERE id = 30 $$), 'ID003', 'old_definition_after_the_rollback');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'sent' WHERE id = 24 $$), 'ok', 'serializable_by_a_transition');
SELECT is(pg_temp.state_of($$ UPDATE guard.t SET s = 'new' WHERE id = 24 $$), 'ID003', 'serializable_by_no_transition');
COMMIT;

-- Enums: labels, renamed ones too.
CREATE TYPE guard.e AS ENUM ('sent', 'paid', 'void', 'draft', 'new');
CREATE TABLE guard.enums (id int, s guard.e);
SELECT idem_machine_attach('guard.enums', 's', 'guard:m');
INSERT INTO guard.enums VALUES (1, 'new');
SELECT is(pg_temp.state_of($$ UPDATE guard.enums SET s = 'paid' $$), 'ok', 'enum_by_a_transition');
SELECT is(pg_temp.error_of($$ UPDATE guard.enums SET s = 'new' $$),
    'ID003 | transition from "paid" to "new" is not allowed | From "paid", state machine "guard:m" can reach: "sent". | enums | s', 'enum_by_no_transition');
ALTER TYPE guard.e RENAME VALUE 'sent' TO 'gone';
SELECT is(pg_temp.state_of($$ UPDATE guard.enums SET s = 'gone' $$), 'ID003', 'renamed_label_is_another_state');

-- Rows that move to another partition, whose columns are elsewhere, together and one by one.
CREATE TABLE guard.p (id int, k int, s text, note text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE guard.p1 PARTITION OF guard.p FOR VALUES IN (1);
CREATE TABLE guard.p2 (note text, gone int, s text, k int NOT NULL, id int NOT NULL);
ALTER TABLE guard.p2 DROP COLUMN gone;
ALTER TABLE guard.p ATTACH PARTITION guard.p2 FOR VALUES IN (2);
CREATE TABLE guard.p3 PARTITION OF guard.p FOR VALUES IN (3, 4) PARTITION BY LIST (k);
CREATE TABLE guard.p33 PARTITION OF guard.p3 FOR VALUES IN (3);
CREATE TABLE guard.p34 PARTITION OF guard.p3 FOR VALUES IN (4);
SELECT idem_machine_attach('guard.p', 's', 'guard:m');
INSERT INTO guard.p SELECT i, 1 + i % 4, 'new', 'new' FROM generate_series(1, 8) i;
SELECT is(pg_temp.state_of($$ INSERT INTO guard.p VALUES (9, 3, 'paid') $$), 'ID003', 'insert_into_a_partition');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.p33 VALUES (9, 3, 'paid') $$), 'ID003', 'directly_too');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4, s = 'paid' $$), 'ok', 'rows_move_by_a_transition');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4 $$), 'ok', 'rows_move_without_one');
SELECT idem_machine_attach('guard.p', 'note', 'guard:m');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4 $$), 'ok', 'rows_with_two_machines_move');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4, note = 'sent' $$), 'ID003', 'each_machine_decides');
SELECT idem_machine_detach('guard.p', 'note');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + (k + 2) % 4 $$), 'ok', 'back_again');
SELECT is(regexp_replace(pg_temp.error_of($$ UPDATE guard.p SET k = 2, s = 'new' WHERE k = 1 $$), '=\([1-8], ', '=(…, '),
    'ID003 | transition from "paid" to "new" is not allowed | From "paid", state machine "guard:m" can reach: "sent". The row has the key (id, k)=(…, 2). | p2 | s', 'rows_move_by_no_transition');
\if :from_15
SELECT is(pg_temp.state_of($$ MERGE INTO guard.p USING generate_series(1, 8) i ON id = i WHEN MATCHED AND i < 3 THEN UPDATE SET k = 1 + k % 4, s = 'sent' WHEN MATCHED AND i > 6 THEN DELETE $$), 'ok', 'merge_moves_rows');
\else
UPDATE guard.p SET k = 1 + k % 4, s = 'sent' WHERE id < 3;
DELETE FROM guard.p WHERE id > 6;
SELECT skip('no MERGE before PostgreSQL 15');
\endif
SELECT is((SELECT string_agg(id || s, ' ' ORDER BY id) FROM guard.p), '1sent 2sent 3paid 4paid 5paid 6paid', 'rows_are_where_they_should_be');
SELECT is(pg_temp.state_of($$ WITH moved AS (UPDATE guard.p SET k = 1 + k % 4 WHERE id = 1 RETURNING *) INSERT INTO guard.p SELECT 50, 1, s FROM moved $$), 'ID003',
    'new_row_of_the_same_command_is_not_taken_for_a_moved_one');
SELECT is(pg_temp.state_of($$ WITH gone AS (DELETE FROM guard.p WHERE id = 1 RETURNING *) INSERT INTO guard.p SELECT id, k, s FROM gone $$), 'ID003',
    'delete_and_insert_is_not_a_move');

-- The move's triggers do more: they write, they fail and are caught, they move other rows.
CREATE FUNCTION guard.meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.note = 'nested' THEN
        UPDATE guard.p SET k = 1 + k % 4, note = NULL WHERE id = 4;
        BEGIN
            UPDATE guard.p SET k = 1 + k % 4, s = 'new' WHERE id = 5;
            RAISE 'should have been refused';
        EXCEPTION WHEN SQLSTATE 'ID003' THEN
        END;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE INSERT ON guard.p FOR EACH ROW EXECUTE FUNCTION guard.meddle();
CREATE TRIGGER a_meddle AFTER INSERT ON guard.p FOR EACH ROW EXECUTE FUNCTION guard.meddle();
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4, s = 'sent', note = 'nested' WHERE id IN (3, 6) $$), 'ok', 'moves_within_moves');
SELECT is((SELECT string_agg(id || s, ' ' ORDER BY id) FROM guard.p), '1sent 2sent 3sent 4paid 5paid 6sent', 'each_row_by_its_own_transition');

-- A move that a trigger discards leaves nothing that a new row could be taken for.
CREATE FUNCTION guard.discard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER z_discard BEFORE INSERT ON guard.p FOR EACH ROW WHEN (NEW.note = 'discard') EXECUTE FUNCTION guard.discard();
SELECT is(pg_temp.state_of($$ DO $do$ BEGIN
    UPDATE guard.p SET k = 1 + k % 4, note = 'discard' WHERE id = 4;
    INSERT INTO guard.p VALUES (70, 1, 'sent');
END $do$ $$), 'ID003', 'discarded_move');

-- Written and moved in one transaction, under savepoints.
BEGIN;
INSERT INTO guard.p VALUES (60, 1, 'new');
SAVEPOINT s;
UPDATE guard.p SET k = 2, s = 'paid' WHERE id = 60;
ROLLBACK TO s;
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 3, s = 'sent' WHERE id = 60 $$), 'ID003', 'move_that_was_rolled_back_counts_not');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 3, s = 'void' WHERE id = 60 $$), 'ok', 'move_from_the_state_before_it');
COMMIT;

-- A foreign key to the table makes the server queue an update of the root as well.
CREATE TABLE guard.refers (id int, k int, FOREIGN KEY (id, k) REFERENCES guard.p ON UPDATE CASCADE);
INSERT INTO guard.refers SELECT id, k FROM guard.p WHERE id = 4;
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET k = 1 + k % 4, s = 'sent' WHERE id = 4 $$), 'ok', 'moved_row_with_references');

-- Rows that something locks, or changes, before the guard sees them: a foreign key to the table itself, and a trigger.
CREATE TABLE guard.self (id int, k int, s text, self int, PRIMARY KEY (id, k), FOREIGN KEY (self, k) REFERENCES guard.self) PARTITION BY LIST (k);
CREATE TABLE guard.self1 PARTITION OF guard.self FOR VALUES IN (1);
CREATE TABLE guard.self2 PARTITION OF guard.self FOR VALUES IN (2);
INSERT INTO guard.self SELECT i, 1, 'paid' FROM generate_series(1, 4) AS i;
SELECT idem_machine_attach('guard.self', 's', 'guard:m');
CREATE FUNCTION pg_temp.again(to_state text, self int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM guard.self WHERE id = 1;
    INSERT INTO guard.self VALUES (9, 2, to_state, self);
END $$;
SELECT is(pg_temp.state_of($$ SELECT pg_temp.again('paid', NULL) $$), 'ID003', 'deletion_and_insertion_are_no_move');
SELECT is(pg_temp.state_of($$ SELECT pg_temp.again('paid', 9) $$), 'ID003', 'neither_of_a_row_that_is_locked');
SELECT is(pg_temp.state_of($$ UPDATE guard.self SET k = 2, self = id, s = 'sent' WHERE id = 2 $$), 'ok', 'locked_row_moves_by_a_transition');
SELECT is(pg_temp.state_of($$ UPDATE guard.self SET k = 2, self = id, s = 'new' WHERE id = 3 $$), 'ID003', 'and_by_no_other');
CREATE FUNCTION guard.change_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE guard.self SET self = NULL WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER a_change AFTER INSERT ON guard.self FOR EACH ROW EXECUTE FUNCTION guard.change_again();
SELECT is(pg_temp.state_of($$ SELECT pg_temp.again('paid', NULL) $$), 'ID003', 'neither_of_a_row_that_a_trigger_changes');

-- What was detached is free.
SELECT idem_machine_detach('guard.p', 's');
SELECT is(pg_temp.state_of($$ UPDATE guard.p SET s = 'anything', k = 1 + k % 4 WHERE id = 1 $$), 'ok', 'detached');

-- Called by hand.
CREATE TRIGGER wrong BEFORE INSERT ON guard.refers FOR EACH ROW EXECUTE FUNCTION idem_state_guard('guard:m', 'id', 'no log', 'valid');
SELECT is(pg_temp.state_of($$ INSERT INTO guard.refers DEFAULT VALUES $$), '39P01', 'guard_as_a_before_trigger');
DROP TRIGGER wrong ON guard.refers;

DROP SCHEMA guard CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'guard:');
SELECT * FROM finish();
