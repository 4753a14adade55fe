-- Whatever a function is given, it answers, or raises an error that says what was wrong with it; and the session goes on.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(5);
SELECT pg_backend_pid() AS pid \gset
\if :{?seed} \else \set seed 1 \endif
\if :{?rounds} \else \set rounds 10 \endif
\ir ../include/odd_arguments.psql
SELECT is(:'uncovered'::text, 'none', 'every_type_of_argument_has_values');
SELECT is(:functions, (SELECT count(*)::int FROM functions WHERE proname NOT LIKE '\_idem\_%'), 'every_function_is_called');
SELECT is(:'problems'::text, 'none', 'no_call_ends_as_none_may');
SELECT is(pg_backend_pid(), :pid, 'the_backend_is_the_same');
SELECT is_empty($$ SELECT key FROM idem_keys WHERE starts_with(key, 'odd') $$, 'nothing_is_left');
SELECT * FROM finish();
