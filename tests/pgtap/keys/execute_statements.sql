-- idem_execute: what is one statement, whatever is around it and whatever its columns are called.
BEGIN;
SELECT plan(11);

SELECT is((SELECT response FROM idem_execute('one:row', 'SELECT 1 AS _idem_row')), '[{"_idem_row": 1}]', 'column_with_a_name_of_idems');
SELECT is((SELECT response FROM idem_execute('one:block', 'SELECT 1 AS a; /* that is * all **/ ')), '[{"a": 1}]', 'comment_behind_a_semicolon');
SELECT is((SELECT response FROM idem_execute('one:line', 'SELECT 1 AS a -- that is all')), '[{"a": 1}]', 'comment_at_the_end');

CREATE TEMP TABLE t (a int);
SELECT is((SELECT response FROM idem_execute('one:returning', 'INSERT INTO pg_temp.t VALUES (1), (2) RETURNING a')), '[{"a": 1}, {"a": 2}]', 'rows_that_are_returned');
SELECT is((SELECT response FROM idem_execute('one:none', 'INSERT INTO pg_temp.t VALUES (3) -- not returning')), '[]', 'returning_in_a_comment');
SELECT throws_ok($$ SELECT idem_execute('one:twice', 'DELETE FROM pg_temp.t WHERE false RETURNING a AS b, a AS b') $$, '42701', NULL, 'columns_of_one_name_without_rows');
SELECT throws_ok($$ SELECT idem_execute('one:empty', '') $$, '42601', 'statement is empty', 'empty');
SELECT throws_ok($$ SELECT idem_execute('one:comment', '; -- nothing') $$, '42601', 'statement is empty', 'nothing_but_a_comment');
SELECT throws_ok($$ SELECT idem_execute('one:two', 'SELECT 1 AS a; SELECT 2 AS a') $$, '42601', 'cannot run more than one statement at a time', 'two_statements');
SELECT throws_ok($$ SELECT idem_execute('one:wrong', 'SELEKT 1') $$, '42601', 'syntax error at or near "SELEKT"', 'syntax_error');
SELECT is((SELECT count(*) FROM pg_temp.t), 3::bigint, 'each_ran_once');

SELECT * FROM finish();
ROLLBACK;
