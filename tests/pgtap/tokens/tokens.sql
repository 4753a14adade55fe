-- Tokens: issued without a trace, redeemed once, bound to subject, scope and time. Races: isolation/specs/token_redeem_race.
\ir ../include/helpers.psql
SELECT plan(43);
CALL pg_temp.clean('token:');
SELECT idem_scope_set('token:kept', keep_forever => true);
SELECT idem_scope_set('token:short', ttl => '1 ms');

-- Shape.
SELECT enum_has_labels('idem', 'idem_token_outcome', ARRAY['accepted', 'duplicate', 'in_flight', 'expired', 'invalid'],
    'outcomes_are_those_of_the_contract');
SELECT matches(idem_token_issue(), '^[A-Za-z0-9_-]{82}$', 'token_is_short_and_url_safe');
SELECT is((SELECT count(DISTINCT substr(idem_token_issue('same'), 20, 18)) FROM generate_series(1, 1000)), 1000::bigint,
          'nonces_differ');
SELECT is(octet_length(idem_token_issue(repeat('s', 100000), '7 days', repeat('é', 127))), 82, 'however_long_its_subject');

-- Once.
SELECT idem_token_issue('alice', scope => 'token:a') AS t \gset
SELECT is(idem_token_redeem(:'t', 'alice', 'token:a'), 'accepted', 'redeemed');
SELECT is(idem_token_redeem(:'t', 'alice', 'token:a'), 'duplicate', 'and_not_again');
SELECT is((SELECT array_agg(idem_token_redeem(t) ORDER BY n) FROM (SELECT idem_token_issue() AS t OFFSET 0) i, generate_series(1, 3) n),
          '{accepted,duplicate,duplicate}', 'once_in_one_statement');

-- Rolled back, it is good again.
SELECT idem_token_issue() AS t \gset
BEGIN;
SELECT idem_token_redeem(:'t');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT idem_token_redeem(:'t') AS first, idem_token_redeem(:'t') AS second \gset
ROLLBACK TO s;
SELECT idem_token_redeem(:'t') AS third \gset
COMMIT;
SELECT is(ARRAY[:'first', :'second', :'third'], '{accepted,duplicate,accepted}', 'rollback_gives_the_token_back');
SELECT is(idem_token_redeem(:'t'), 'duplicate', 'commit_keeps_it');
SELECT idem_token_issue() AS t \gset
SELECT is(pg_temp.state_of(format('SELECT 1 / (idem_token_redeem(%L) = ''duplicate'')::int', :'t')), '22012', 'business_fails');
SELECT is(idem_token_redeem(:'t'), 'accepted', 'and_the_token_survives_it');

-- Bound.
SELECT idem_token_issue('alice', scope => 'token:a') AS t, idem_token_issue() AS plain, idem_token_issue('ab', scope => 'c') AS ab_c \gset
SELECT is(idem_token_redeem(:'t', 'bob', 'token:a') || ' ' || idem_token_redeem(:'t', 'alicf', 'token:a'), 'invalid invalid',
          'of_another_subject');
SELECT is(idem_token_redeem(:'t', 'alice', 'token:b') || ' ' || idem_token_redeem(:'t', 'alice', 'token:aa'), 'invalid invalid',
          'of_another_scope');
SELECT is(idem_token_redeem(:'t', 'token:a', 'alice'), 'invalid', 'of_the_two_exchanged');
SELECT is(idem_token_redeem(:'t', 'alice'), 'invalid', 'without_its_scope');
SELECT is(idem_token_redeem(:'ab_c', 'b', 'ca'), 'invalid', 'of_the_same_characters_divided_elsewhere');
SELECT is(idem_token_redeem(:'plain', ' '), 'invalid', 'subject_counts_to_the_last_space');
SELECT is((SELECT count(*) FROM idem_tokens WHERE scope IN ('c', 'ca', 'token:b')), 0::bigint, 'what_is_invalid_leaves_no_trace');
SELECT is(idem_token_redeem(:'t', 'alice', 'token:a'), 'accepted', 'and_does_not_use_the_token_up');

-- Time.
SELECT idem_token_issue(ttl => '1 ms') AS brief, idem_token_issue(ttl => '1 ms') AS used \gset
SELECT idem_token_issue(ttl => '3 s', subject => 'x') AS soon \gset
SELECT idem_token_redeem(:'soon', 'x') AS redeemed \gset
CALL pg_temp.sleep('3010 ms');
SELECT is(idem_token_redeem(:'brief'), 'expired', 'too_late');
SELECT is(idem_token_redeem(:'brief', 'eve'), 'invalid', 'expired_is_said_only_to_its_subject');
SELECT is(ARRAY[:'redeemed', idem_token_redeem(:'soon', 'x')::text], '{accepted,expired}', 'expiry_is_judged_first');
SELECT is(pg_temp.state_of('SELECT idem_token_issue(ttl => ''168 hours'')'), 'ok', 'seven_days');
SELECT is((SELECT string_agg(life || ' ' || state, ', ')
             FROM unnest('{7 days 1 us,0,-1 s,1 month}'::text[]) AS life,
                  pg_temp.state_of(format('SELECT idem_token_issue(ttl => %L)', life)) AS state WHERE state <> '22023'),
          NULL, 'too_long_or_not_positive');
SELECT ok(bool_and(expires_at > clock_timestamp() + '12 hours'), 'row_outlives_the_token') FROM idem_tokens WHERE scope = '';

-- The retention of a scope's keys is none of a token's business.
SELECT idem_token_issue(scope => 'token:short') AS short, idem_token_issue(scope => 'token:kept') AS kept \gset
SELECT is(idem_token_redeem(:'short', scope => 'token:short'), 'accepted', 'in_a_scope_of_short_retention');
SELECT idem_token_redeem(:'kept', scope => 'token:kept');
CALL pg_temp.sleep('5 ms');
SELECT is(idem_token_redeem(:'short', scope => 'token:short'), 'duplicate', 'and_still_only_once');
SELECT ok(expires_at < clock_timestamp() + '2 days', 'nothing_is_kept_for_ever') FROM idem_tokens WHERE scope = 'token:kept';

-- Bad input.
SELECT throws_ok('SELECT idem_token_redeem(NULL)', '22004', NULL, 'null_token');
SELECT is(idem_token_redeem(idem_token_issue(NULL, NULL), ''), 'accepted', 'null_subject_is_the_empty_one');
SELECT is(idem_token_redeem(idem_token_issue(''), NULL), 'accepted', 'also_of_a_redemption');
SELECT is((SELECT string_agg(call || ' ' || state, ', ')
             FROM unnest(ARRAY['issue(scope => repeat(''s'', 256))', 'redeem(''x'', scope => repeat(''s'', 256))']) AS call,
                  pg_temp.state_of('SELECT idem_token_' || call) AS state WHERE state <> '22023'), NULL, 'scopes_too_long');

-- A space of its own: no function on keys can free or burn a token.
SELECT idem_token_issue() AS t \gset
SELECT idem_token_redeem(:'t') \g /dev/null
SELECT key AS name FROM idem_tokens WHERE scope = '' ORDER BY created_at DESC LIMIT 1 \gset
SELECT is(idem_try_claim(:'name'), 'acquired', 'its_name_is_free_among_the_keys');
SELECT is(idem_forget(:'name'), true, 'forgetting_that_key');
SELECT is(idem_token_redeem(:'t'), 'duplicate', 'frees_no_token');

-- Issuing writes nothing: no transaction id, no WAL, no tuple; and so it works where nothing may be written.
BEGIN READ ONLY;
SELECT pg_temp.wal_records($$ SELECT count(idem_token_issue('reader')) FROM generate_series(1, 1000) $$) AS wal \gset
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid \gset
SELECT idem_token_issue('reader') AS fresh \gset
SELECT is(idem_token_redeem(:'t'), 'duplicate', 'duplicate_in_a_read_only_transaction');
SELECT is(idem_token_redeem(:'brief') || ' ' || idem_token_redeem('x'), 'expired invalid', 'other_answers_in_a_read_only_transaction');
SELECT is(pg_temp.state_of(format('SELECT idem_token_redeem(%L, ''reader'')', :'fresh')), '25006', 'a_good_token_is_25006');
COMMIT;
SELECT ok(:wal = 0 AND :'no_xid', 'issuing_writes_nothing');
SELECT is(idem_token_redeem(:'fresh', 'reader'), 'accepted', 'a_token_from_a_read_only_transaction');

-- Answering about a redeemed token writes nothing either.
BEGIN;
SELECT pg_temp.wal_records(format('SELECT idem_token_redeem(%1$L), idem_token_redeem(%1$L, ''x''), idem_token_redeem(%2$L)', :'t', :'brief')) AS wal \gset
SELECT pg_current_xact_id_if_assigned() IS NULL AS quiet \gset
COMMIT;
SELECT ok(:wal = 0 AND :'quiet', 'other_answers_write_nothing');

-- Rotation.
SELECT idem_token_issue('old') AS old \gset
SELECT idem_token_rotate_secret();
SELECT is(ARRAY[idem_token_redeem(:'old', 'old'), idem_token_redeem(idem_token_issue())], '{accepted,accepted}', 'old_and_new_tokens_after_a_rotation');
SELECT idem_token_issue('old') AS old, idem_token_issue('gone') AS gone \gset
SELECT idem_token_redeem(:'old', 'old') \g /dev/null
SELECT idem_token_rotate_secret(revoke => true);
SELECT is(ARRAY[idem_token_redeem(:'gone', 'gone'), idem_token_redeem(:'old', 'old'), idem_token_redeem(idem_token_issue())],
          '{invalid,invalid,accepted}', 'revoked');

DELETE FROM idem_tokens;
CALL pg_temp.clean('token:');
SELECT * FROM finish();
