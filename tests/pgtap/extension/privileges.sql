-- Who may call what: PUBLIC only the pure functions, users and operators what idem_grant gives them.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(28);
CALL pg_temp.clean('grant:');

-- Files that grant take turns: two sessions cannot change one function's privileges at the same time.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_nobody;
CREATE ROLE tap_user;
CREATE ROLE tap_operator;
GRANT USAGE ON SCHEMA idem TO tap_nobody;

-- The portable edition's helpers run with their callers' rights.
CREATE TEMP VIEW named AS SELECT oid, proname::text AS name FROM functions WHERE proname NOT LIKE '\_idem\_%' OR prosecdef;

-- The matrix: each call as it would be written, and for whom it is.
CREATE TEMP TABLE matrix (name text, audience text, call text);
INSERT INTO matrix VALUES
    ('idem_key',               'public',   'idem_key(''a'', ''b'')'),
    ('idem_fingerprint',       'public',   'idem_fingerprint(''{}'')'),
    ('idem_fingerprint_text',  'public',   'idem_fingerprint_text(''x'')'),
    ('idem_fingerprint_bytes', 'public',   'idem_fingerprint_bytes(''x'')'),
    ('idem_claim',             'user',     'idem_claim(''grant:claim'')'),
    ('idem_must_claim',        'user',     'idem_must_claim(''grant:must'' || gen_random_uuid())'),
    ('idem_try_claim',         'user',     'idem_try_claim(''grant:try'')'),
    ('idem_claim_many',        'user',     'idem_claim_many(''{grant:many}'')'),
    ('idem_begin',             'user',     'idem_begin(''grant:begin'', lease => ''1 hour'', owner => ''o'')'),
    ('idem_step',        'user',     'idem_step(''grant:held'', %s, ''x'')'),
    ('idem_renew',             'user',     'idem_renew(''grant:held'', %s, ''1 hour'')'),
    ('idem_complete',          'user',     'idem_complete(''grant:held'', ''1'', fence => %s)'),
    ('idem_release',           'user',     'idem_release(''grant:held2'', %s)'),
    ('idem_is_owner',          'user',     'idem_is_owner(''grant:held'', ''me'')'),
    ('idem_lookup',            'user',     'idem_lookup(''grant:held'')'),
    ('idem_execute',           'user',     'idem_execute(''grant:execute'', ''SELECT 1'')'),
    ('idem_hit',               'user',     'idem_hit(''grant:hit'')'),
    ('idem_hits',              'user',     'idem_hits(''grant:hit'')'),
    ('idem_serialize',         'user',     'idem_serialize(''grant:serialize'')'),
    ('idem_lock',              'user',     'idem_lock(''grant:lock'', owner => ''o'')'),
    ('idem_lock_renew',        'user',     'idem_lock_renew(''grant:lock'', 1)'),
    ('idem_assert_fence',      'user',     'idem_assert_fence(''grant:taken'', %s)'),
    ('idem_unlock',            'user',     'idem_unlock(''grant:lock'', 1)'),
    ('idem_consume',           'user',     'idem_consume(''grant:'', ''message'')'),
    ('idem_allow',             'user',     'idem_allow(''grant:rate'', 1, 1)'),
    ('idem_verify_request',    'user',     'idem_verify_request(''{}'', ''s'', ''k'', now(), ''n'')'),
    ('idem_request_message',   'public',   'idem_request_message(''{}'', ''k'', now(), ''n'')'),
    ('idem_api_key_set',       'operator', 'idem_api_key_set(''grant:key'', ''sixteen bytes or more'')'),
    ('idem_api_key_drop',      'operator', 'idem_api_key_drop(''grant:key'')'),
    ('idem_webhook_receive',   'user',     'idem_webhook_receive(''s'', ''{}'', '''')'),
    ('idem_webhook_source_set',  'operator', 'idem_webhook_source_set(''grant:source'', ''slack'', ''eight or more'')'),
    ('idem_webhook_source_drop', 'operator', 'idem_webhook_source_drop(''grant:source'')'),
    ('idem_forget',            'operator', 'idem_forget(''grant:forget'')'),
    ('idem_redact',            'operator', 'idem_redact(''grant:forget'')'),
    ('idem_resolve',           'operator', 'idem_resolve(''grant:lapsed'', ''released'')'),
    ('idem_scope_set',         'operator', 'idem_scope_set(''grant:scope'', ttl => ''1 hour'')'),
    ('idem_scope_reset',       'operator', 'idem_scope_reset(''grant:scope'', ''ttl'')'),
    ('idem_ring_create',       'operator', 'idem_ring_create(''grant:'' || random(), ''1 h'', 3)'),
    ('idem_ring_drop',         'operator', 'idem_ring_drop(''grant:dropped'')'),
    ('idem_ring_rebuild_filter', 'operator', 'idem_ring_rebuild_filter(''grant:ring'')'),
    ('idem_ring_windows',      'operator', 'idem_rings'),
    ('idem_ring_adopt',        'nobody',   'idem_ring_adopt(1)'),
    ('idem_scope_rings',       'operator', 'idem_scope_settings'),
    ('idem_scope_sizes',       'operator', 'idem_scope_sizes()'),
    ('idem_version',           'public',   'idem_version()'),
    ('idem_scope_drop',        'operator', 'idem_scope_drop(''grant:scope'')'),
    ('idem_http_key',          'user',     'idem_http_key(''x'')'),
    ('idem_http_profiles',     'operator', 'idem_http_profiles()'),
    ('idem_http_begin',        'user',     'idem_http_begin(''web'', ''POST'', ''/'', ''grant:http'' || random())'),
    ('idem_http_complete',     'user',     'idem_http_complete(''web'', NULL, 200, NULL, NULL)'),
    ('idem_http_scope_set',    'operator', 'idem_http_scope_set(''grant:scope'', missing_key_status => 400)'),
    ('idem_can_transition',    'public',   'idem_can_transition(''grant:machine'', ''a'', ''b'')'),
    ('idem_check_transition',  'public',   'idem_check_transition(''grant:machine'', ''a'', ''a'')'),
    ('idem_machine_dot',       'user',     'idem_machine_dot(''grant:machine'')'),
    ('idem_machine_mermaid',   'user',     'idem_machine_mermaid(''grant:machine'')'),
    ('idem_machine_define',    'operator', 'idem_machine_define(''grant:machine'', ''{"initial": ["a"], "transitions": {"a": ["a"]}}'')'),
    ('idem_machine_drop',      'operator', 'idem_machine_drop(''grant:dropped'')'),
    ('idem_stats_reset',       'operator', 'idem_stats_reset()'),
    ('idem_in_flight',         'operator', 'idem_in_flight()'),
    ('idem_health',            'operator', 'idem_health()'),
    ('idem_publish',           'user',     'idem_publish(''grant:topic'', ''1'')'),
    ('idem_publish_many',      'user',     'idem_publish_many(''grant:topic'', ''[]'')'),
    ('idem_outbox_take',       'user',     'idem_outbox_take(''grant:topic'')'),
    ('idem_outbox_ack',        'user',     'idem_outbox_ack(''{1}'', 1)'),
    ('idem_outbox_nack',       'user',     'idem_outbox_nack(''{1}'', 1)'),
    ('idem_outbox_renew',      'user',     'idem_outbox_renew(''{1}'', 1, ''1 s'')'),
    ('idem_outbox_backlog',    'operator', 'idem_outbox_backlog()'),
    ('idem_outbox_retry',      'operator', 'idem_outbox_retry(''{1}'')'),
    ('idem_outbox_discard',    'operator', 'idem_outbox_discard(''{1}'')'),
    ('idem_outbox_dead_letters', 'operator', 'idem_dead_letters'),
    ('idem_stats_counters',    'user',     'idem_stats'),
    ('idem_health_library',    'nobody',   'idem_health_library()'),
    ('idem_objects',           'nobody',   'idem_objects()'),
    ('idem_members',           'nobody',   'idem_members()'),
    ('idem_set_privileges',    'nobody',   'idem_set_privileges()'),
    ('idem_unintended_privileges', 'nobody', 'idem_unintended_privileges()'),
    ('idem_grant',             'nobody',   'idem_grant(''tap_nobody'')'),
    ('idem_revoke',            'nobody',   'idem_revoke(''tap_nobody'')');
SELECT idem_machine_define(name, '{"initial": ["a"], "transitions": {"a": ["a"]}}') FROM unnest('{grant:machine,grant:dropped}'::text[]) name;
SELECT edition = 'c' AS has_rings FROM idem_version() \gset
\if :has_rings
SELECT idem_ring_create(name, '1 h', 3) FROM unnest('{grant:ring,grant:dropped}'::text[]) name;
\else
DELETE FROM matrix WHERE name = 'idem_ring_adopt';
\endif
SELECT fence AS held FROM idem_begin('grant:held', lease => '1 hour') \gset
SELECT fence AS held2 FROM idem_begin('grant:held2', lease => '1 hour') \gset
SELECT outcome FROM idem_begin('grant:lapsed', lease => '1 ms');
SELECT idem_lock('grant:taken', '1 hour') AS taken \gset
UPDATE matrix SET call = format(call, :taken) WHERE name = 'idem_assert_fence';
UPDATE matrix SET call = format(call, CASE WHEN call LIKE '%held2%' THEN :held2 ELSE :held END);
CALL pg_temp.sleep('5 ms');

-- Calls that end otherwise than they should for this role. Where there are no rings and no counters, those who may have to do with them are told so.
CREATE FUNCTION pg_temp.surprises(role name, may text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', name, state), ', ')
      FROM matrix, pg_temp.state_as(role, 'SELECT * FROM idem.' || call) AS state
     WHERE state <> CASE WHEN audience <> ALL (may) THEN '42501'
                         WHEN name ~ '^idem_(ring_(create|drop|rebuild)|stats_reset)' AND (SELECT edition FROM idem.idem_version()) <> 'c' THEN '0A000'
                         ELSE 'ok' END
$$;

SELECT is(pg_temp.surprises('tap_nobody', '{public}'), NULL, 'role_without_grants_has_the_pure_functions');
SELECT idem_grant('tap_user');
SELECT ok(has_schema_privilege('tap_user', 'idem', 'USAGE'), 'grant_includes_the_use_of_the_schema');
SELECT is(pg_temp.surprises('tap_user', '{public,user}'), NULL, 'granted_role_has_the_users_functions');
UPDATE matrix SET call = replace(call, 'grant:held', 'grant:again') WHERE call LIKE '%held%';
SELECT fence AS again FROM idem_begin('grant:again', lease => '1 hour') \gset
SELECT fence AS again2 FROM idem_begin('grant:again2', lease => '1 hour') \gset
UPDATE matrix SET call = replace(replace(call, :'held', :'again'), :'held2', :'again2');
SELECT idem_grant(role => 'tap_operator', operator => true);
SELECT is(pg_temp.surprises('tap_operator', '{public,user,operator}'), NULL, 'operator_has_all_but_the_grants');
SELECT is(pg_temp.surprises('tap_nobody', '{public}'), NULL, 'grants_to_others_change_nothing');

-- The lists are complete: nothing else is open to PUBLIC, whatever later files of the extension add.
SELECT is(
    (SELECT string_agg(oid::regprocedure::text, ', ') FROM named f
      WHERE has_function_privilege('tap_nobody', f.oid, 'EXECUTE')
        AND name NOT IN ('idem_key', 'idem_fingerprint', 'idem_fingerprint_text', 'idem_fingerprint_bytes', 'idem_next_id',
                         'idem_id_parts', 'idem_uuid_v7', 'idem_can_transition', 'idem_check_transition', 'idem_request_message',
                         'idem_version')),
    NULL, 'public_can_execute_nothing_but_the_pure_functions');
SELECT is(
    (SELECT string_agg(name, ', ') FROM named f
      WHERE has_function_privilege('tap_user', f.oid, 'EXECUTE')
        AND name IN ('idem_forget', 'idem_resolve', 'idem_redact', 'idem_scope_set', 'idem_scope_reset', 'idem_scope_drop', 'idem_machine_define', 'idem_machine_drop',
                     'idem_grant', 'idem_revoke', 'idem_sweep', 'idem_sweep_status', 'idem_http_scope_set', 'idem_ring_create', 'idem_ring_drop')),
    NULL, 'user_has_no_operators_function');
SELECT is(
    (SELECT string_agg(name, ', ') FROM named f
      WHERE has_function_privilege('tap_operator', f.oid, 'EXECUTE') AND name IN ('idem_grant', 'idem_revoke')),
    NULL, 'operator_cannot_grant');
SELECT is(
    (SELECT string_agg(name, ', ') FROM matrix WHERE name NOT IN (SELECT name FROM named)), NULL, 'matrix_has_no_function_too_many');
SELECT is(
    (SELECT string_agg(f.name, ', ') FROM named f
      WHERE f.name LIKE 'idem\_%' AND has_function_privilege('tap_operator', f.oid, 'EXECUTE')
        AND f.name NOT IN (SELECT name FROM matrix)
        AND f.name !~ '^idem_(token|next_id|id_parts|uuid|machine|state_guard|version_guard|transition|can_|check_|sweep|in_flight|stats|'
                         'health|http|consume|publish|outbox|verify|allow|api|citus)'),
    NULL, 'matrix_has_every_function_of_keys_and_scopes');

-- Tables are closed, to granted roles as well: fences and owners are in them.
SELECT is(
    (SELECT string_agg(format('%s may %s %s', role, privilege, relname), ', ')
       FROM relations r, unnest('{tap_nobody,tap_user,tap_operator}'::name[]) AS role,
            unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS privilege
      WHERE relkind = 'r' AND has_table_privilege(role, r.oid, privilege)),
    NULL, 'tables_are_closed_to_public_users_and_operators');
SELECT is(
    (SELECT string_agg(format('%s: %s', role, views), '; ' ORDER BY role)
       FROM (SELECT role, string_agg(relname, ' ' ORDER BY relname) AS views FROM relations r, unnest('{tap_nobody,tap_user,tap_operator}'::name[]) AS role
              WHERE relkind = 'v' AND has_table_privilege(role, r.oid, 'SELECT') GROUP BY role) v),
    'tap_operator: idem_dead_letters idem_guards idem_replicated_tables idem_rings idem_scope_settings idem_stats idem_sweep_progress; tap_user: idem_guards idem_stats', 'views_are_readable_through_the_grants');
SELECT is(
    (SELECT string_agg(relname, ', ')
       FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
      WHERE relkind IN ('r', 'v', 'm') AND has_column_privilege('tap_operator', r.oid, a.attnum, 'SELECT')
        AND a.attname IN ('fence', 'owner') AND relname IN ('idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates', 'idem_counters')),
    NULL, 'fences_and_owners_are_readable_through_no_column');
SELECT is(
    (SELECT string_agg(relname || '.' || attname, ', ')
       FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
      WHERE relkind IN ('v', 'm') AND a.attname ~ 'fence$|^owner$|nonce'),
    NULL, 'fences_and_owners_are_in_no_view');
SELECT is(
    (SELECT string_agg(relname, ', ') FROM relations r
      WHERE CASE WHEN relkind = 'S' THEN has_sequence_privilege('tap_nobody', r.oid, 'USAGE, SELECT, UPDATE') END),
    NULL, 'sequences_are_closed_to_public');
SELECT is(pg_temp.state_as('tap_user', 'SELECT * FROM idem.idem_keys'), '42501', 'user_cannot_read_the_key_table');

-- Granting again, changing sides, membership.
SELECT lives_ok($$ SELECT idem_grant('tap_user') $$, 'granting_twice');
GRANT tap_user TO tap_nobody;
SELECT is(pg_temp.state_as('tap_nobody', $$ SELECT idem.idem_claim('grant:member') $$), 'ok', 'member_of_a_granted_role');
REVOKE tap_user FROM tap_nobody;
SELECT lives_ok($$ SELECT idem_grant('tap_user', true) $$, 'user_becomes_an_operator');
SELECT is(pg_temp.state_as('tap_user', $$ SELECT idem.idem_forget('grant:claim') $$), 'ok', 'and_forgets');

-- Revoking takes everything back, so that the role can be dropped.
SELECT lives_ok($$ SELECT idem_revoke('tap_user') $$, 'revoke');
SELECT lives_ok($$ SELECT idem_revoke('tap_user') $$, 'revoking_twice');
GRANT USAGE ON SCHEMA idem TO tap_user;
SELECT is(pg_temp.surprises('tap_user', '{public}'), NULL, 'revoked_role_has_the_pure_functions');
REVOKE USAGE ON SCHEMA idem FROM tap_user;
SELECT lives_ok('DROP ROLE tap_user', 'revoked_role_can_be_dropped');
SELECT idem_revoke(role => 'tap_operator');
-- The schema may hold other things that the role uses, so its USAGE is not idem's to take back.
REVOKE USAGE ON SCHEMA idem FROM tap_operator;
SELECT lives_ok('DROP ROLE tap_operator', 'revoked_operator_can_be_dropped');

-- Odd names and PUBLIC's own grants.
CREATE ROLE "tap O'dd ""role""; DROP TABLE x";
SELECT lives_ok($$ SELECT idem_grant(quote_ident('tap O''dd "role"; DROP TABLE x')::regrole) $$, 'role_with_an_odd_name');
SELECT is(pg_temp.state_as('tap O''dd "role"; DROP TABLE x', $$ SELECT idem.idem_claim('grant:odd') $$), 'ok', 'and_it_may_claim');
ROLLBACK;
SELECT is(idem_claim('grant:claim'), true, 'all_of_it_is_rolled_back');

CALL pg_temp.clean('grant:');
SELECT * FROM finish();
