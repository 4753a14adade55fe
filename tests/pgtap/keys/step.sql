-- idem_step: what a holder intends, and what came of it. The order in which holders fail is in isolation/specs.
\ir ../include/helpers.psql
SELECT plan(44);
CALL pg_temp.clean('step:');
SELECT fence FROM idem_begin('step:a', lease => '1 hour', owner => 'me') \gset
CREATE FUNCTION pg_temp.steps(key text) RETURNS jsonb LANGUAGE sql VOLATILE AS $$ SELECT steps FROM idem.idem_lookup(key) $$;
CREATE FUNCTION pg_temp.noted(fence bigint, step text, output text = NULL) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT pg_temp.state_of(format('SELECT idem_step(%L, %s, %L, %L)', 'step:a', fence, step, output))
$$;

-- Intended, done.
SELECT is(pg_temp.steps('step:a'), NULL, 'no_steps');
SELECT is((SELECT steps FROM idem_begin('step:a', lease => '1 hour', owner => 'me')), NULL, 'nor_in_a_ticket');
SELECT is(idem_step('step:a', :fence, 'charge'), true, 'intended');
SELECT is(pg_temp.steps('step:a'), '{"charge": null}', 'an_intended_step_is_null');
SELECT is(idem_step('step:a', :fence, 'charge'), false, 'intended_again');
SELECT is(idem_step('step:a', :fence, 'charge', '{"id": 7}'), true, 'done');
SELECT is(pg_temp.steps('step:a'), '{"charge": {"id": 7}}', 'a_step_that_is_done_has_its_output');
SELECT is(idem_step('step:a', :fence, 'charge', '{"id": 7.0}'), false, 'done_again_with_an_equal_output');
SELECT is(idem_step('step:a', :fence, 'charge'), false, 'an_intention_does_not_undo_it');
SELECT is(pg_temp.noted(:fence, 'charge', '{"id": 8}'), 'ID001', 'another_output_is_refused');
SELECT is(pg_temp.noted(:fence, 'charge', '[{"id": 7}]'), 'ID001', 'and_one_of_another_kind');
SELECT is(pg_temp.steps('step:a'), '{"charge": {"id": 7}}', 'the_first_output_stays');
SELECT is(idem_step('step:a', :fence, 'mail', '"sent"'), true, 'done_without_an_intention');
SELECT is(idem_step('step:a', :fence, 'book', '{}'), true, 'an_empty_object');
SELECT is(idem_step('step:a', :fence, 'count', '0'), true, 'a_number');
SELECT is(idem_step('step:a', :fence, 'count', '0.0'), false, 'which_is_the_same_in_another_form');
SELECT is(idem_step('step:a', :fence, 'bill', 'false'), true, 'a_boolean');
SELECT is(idem_step('step:a', :fence, 'bill', 'false'), false, 'again');
SELECT is(idem_step('step:a', :fence, 'list', '[null, {"a": null}]'), true, 'nulls_within_an_output');
SELECT is(idem_step('step:a', :fence, 'list', '[null, {"a": null}]'), false, 'are_kept');
SELECT is(pg_temp.steps('step:a'),
    '{"charge": {"id": 7}, "mail": "sent", "book": {}, "count": 0, "bill": false, "list": [null, {"a": null}]}', 'all_steps');
SELECT is((SELECT steps FROM idem_begin('step:a', lease => '1 hour', owner => 'me')), pg_temp.steps('step:a'), 'are_in_the_holders_ticket');
SELECT is((SELECT steps FROM idem_begin('step:a')), NULL, 'and_in_nobody_elses');
SELECT is(idem_step(key => 'step:a', fence => :fence, step => E'a "b"\\ \u00e9', output => NULL, scope => NULL), true, 'any_name');
SELECT ok(pg_temp.steps('step:a') ? E'a "b"\\ \u00e9', 'is_kept');

-- A release, a takeover.
SELECT idem_release('step:a', :fence);
SELECT fence AS second, steps - E'a "b"\\ \u00e9' = '{"charge": {"id": 7}, "mail": "sent", "book": {}, "count": 0, "bill": false, "list": [null, {"a": null}]}' AS kept
  FROM idem_begin('step:a', lease => '1 us') \gset
SELECT ok(:'kept', 'steps_survive_a_release');
SELECT is(pg_temp.noted(:second, 'late'), 'ok', 'a_lapsed_lease_that_nobody_took_over');
SELECT fence AS third, outcome, steps ? 'late' AS kept FROM idem_begin('step:a', lease => '1 hour') \gset
SELECT is(:'outcome' || :'kept', 'taken_overt', 'steps_survive_a_takeover');
SELECT is(pg_temp.noted(:second, 'late', '1'), 'ID001', 'the_holder_before_is_stale');
SELECT is(pg_temp.noted(:third, 'late', '1'), 'ok', 'and_the_present_one_is_not');
SELECT idem_complete('step:a', fence => :third);
SELECT is(pg_temp.noted(:third, 'late', '1'), 'ID001', 'a_completed_key_takes_no_steps');
SELECT ok(pg_temp.steps('step:a') ? 'charge', 'but_shows_them');

-- A new key begins without.
SELECT idem_forget('step:a');
SELECT fence FROM idem_begin('step:a', lease => '1 hour') \gset
SELECT is(pg_temp.steps('step:a'), NULL, 'forgotten_with_the_key');

-- Bad input.
SELECT is(pg_temp.noted(:fence, NULL), '22004', 'no_step');
SELECT is(pg_temp.state_of($$ SELECT idem_step('step:a', NULL, 'x') $$), '22004', 'no_fence');
SELECT is(pg_temp.state_of($$ SELECT idem_step(NULL, 1, 'x') $$), '22004', 'no_key');
SELECT is(pg_temp.noted(:fence, ''), '22023', 'empty_step');
SELECT is(pg_temp.noted(:fence, repeat('x', 1024)), 'ok', 'longest_step');
SELECT is(pg_temp.noted(:fence, repeat('x', 1025)), '22023', 'longer_step');
SELECT is(pg_temp.noted(:fence, 'x', 'null'), '22023', 'output_null');
SELECT is(pg_temp.state_of($$ SELECT idem_step('step:nothing', 1, 'x') $$), 'ID001', 'absent_key');

-- As large as a response may be, all steps together.
SELECT idem_scope_set('step:small', max_response_size => 100);
SELECT fence FROM idem_begin('step:k', lease => '1 hour', scope => 'step:small') \gset
SELECT idem_step('step:k', :fence, 'charge', scope => 'step:small');
SELECT is(pg_temp.state_of(format($$ SELECT idem_step('step:k', %s, 'charge', to_jsonb(repeat('x', 100)), 'step:small') $$, :fence)), '54000',
    'too_large');
SELECT is((SELECT steps FROM idem_lookup('step:k', 'step:small')), '{"charge": null}', 'the_step_stays_intended');
SELECT is(idem_step('step:k', :fence, 'charge', to_jsonb(repeat('x', 50)), 'step:small'), true, 'and_can_be_done_with_less');
SELECT idem_scope_drop('step:small');
CALL pg_temp.clean('step:');
SELECT * FROM finish();
