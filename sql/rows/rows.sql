-- Row flows: they change, lock or insert rows of the user's own tables. All run with the caller's privileges and row-level security.

CREATE FUNCTION idem_version_guard() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_version_guard() IS
'Trigger that optimistic_enable creates on a table (BEFORE UPDATE, for each row; argument: the version column). It bumps the version if an update leaves it alone. An update may also set it to the old version plus one; any other value raises ID004.';

CREATE FUNCTION optimistic_enable(target regclass, version_column name DEFAULT 'version')
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_enable(regclass, name) IS
'Gives a table a version column (bigint NOT NULL DEFAULT 1, if it is missing), and a trigger that checks the version in every UPDATE. Calling it again for the same column is a no-op. The trigger fires neither in the apply worker of logical replication nor with session_replication_role = replica.
Errors: 22004 target is null; 428C9 the column is generated; 42501 the caller does not own the table; 42804 the column is not smallint, integer or bigint; 42809 not a table; 55000 the column allows nulls, or another column is guarded already.';

CREATE FUNCTION optimistic_disable(target regclass)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_disable(regclass) IS
'Removes the version guard from a table; the column stays. Errors: 42501 the caller does not own the table; 55000 there is no guard.';

CREATE FUNCTION optimistic_update(target regclass, key jsonb, expected_version bigint, changes jsonb,
                                  OUT outcome text, OUT version bigint, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION optimistic_update(regclass, jsonb, bigint, jsonb) IS
'Changes the row with this key if it still has the expected version, which then grows by one. outcome updated: with the new version and row; conflict: another change came first, with the current version and row; not_found.
key, changes: {"column": value, ...}, values as in jsonb_populate_record. row_data: the columns that the caller may SELECT.
Errors: 22004 an argument, or a value of key, is null; 22023 key or changes are not an object, or changes contain the version; 40001 under REPEATABLE READ and SERIALIZABLE, when the row changed after the snapshot; 42703 unknown column; 42809 not a table; 42P10 key is not exactly a unique key; 55000 optimistic_enable was not called; 09000 a trigger discarded the update; and those of the UPDATE.';

CREATE FUNCTION conditional_update(target regclass, key jsonb, expected jsonb, changes jsonb, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION conditional_update(regclass, jsonb, jsonb, jsonb) IS
'Changes the row with this key if the columns of expected have these values (compare and set). Null is a value like others. outcome updated, conflict (with the current row) or not_found. Arguments and errors as optimistic_update; 42883 the type of an expected column has no equality operator.';

CREATE FUNCTION conditional_adjust(target regclass, key jsonb, column_name name, delta numeric, minimum numeric DEFAULT 0,
                                   maximum numeric DEFAULT NULL, OUT outcome text, OUT value numeric)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION conditional_adjust(regclass, jsonb, name, numeric, numeric, numeric) IS
'Adds delta to a number if the sum stays within minimum (not given: 0; -infinity: none) and maximum (not given: none). outcome adjusted (with the new value), out_of_range (with the current one) or not_found.
Errors: as optimistic_update; 22003 the column''s type cannot hold the sum; 22004 the number is null; 22023 delta is not finite or would be rounded, minimum is greater than maximum; 42804 the column is not a number.';

CREATE FUNCTION pessimistic_lock(target regclass, key jsonb, wait interval DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION pessimistic_lock(regclass, jsonb, interval) IS
'Locks the row with this key (SELECT ... FOR UPDATE) until the transaction ends, and returns it. outcome locked (with the row), busy (another transaction holds it) or not_found.
wait: how long to wait for another holder; not given: without limit, as SELECT FOR UPDATE does; 0: not at all. It bounds each wait for a lock, as lock_timeout does.
Errors: as optimistic_update; 25P01 alone in its transaction; 22023 wait is negative or infinite; and those of any lock wait (40P01, 55P03, 57014).';

CREATE FUNCTION pessimistic_lock_many(target regclass, keys jsonb[], wait interval DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION pessimistic_lock_many(regclass, jsonb[], interval) IS
'Locks many rows as pessimistic_lock does, in an order in which two callers cannot deadlock on each other: that of the table''s primary key (without one: of its first unique key). Returns one result for each key, in the order of the array. Errors: as pessimistic_lock; 40001 a key passed to another row meanwhile.';

CREATE FUNCTION unique_insert(target regclass, new_row jsonb, conflict_columns name[] DEFAULT NULL, OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION unique_insert(regclass, jsonb, name[]) IS
'Inserts the row unless one with the same conflict_columns (null: the primary key) exists. outcome inserted or duplicate; either way row_data is the row that is now in the table (null when row-level security hides it). Waits for a rival that has not committed.
Errors: 09000 a trigger discarded the row; 22004 new_row is null; 22023 new_row lacks a conflict column whose default differs for each row; 23505 another constraint is violated; 40001 under REPEATABLE READ and SERIALIZABLE, when the duplicate is not in the snapshot, and for a table with triggers when the duplicate was deleted meanwhile; 42703 unknown column; 42809 not a table; 42P10 conflict_columns are not exactly a unique key; and those of the INSERT.';

CREATE FUNCTION guarded_insert(target regclass, new_row jsonb, match_columns name[], OUT outcome text, OUT row_data jsonb)
LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION guarded_insert(regclass, jsonb, name[]) IS
'As unique_insert, for a table that cannot have the unique index. Needs an ordinary index that begins with match_columns, and locks their values until the transaction ends. Guards only against other callers of this function.
Errors: as unique_insert; 22004 also for a null in a match column; 42P10 no index begins with match_columns.';
