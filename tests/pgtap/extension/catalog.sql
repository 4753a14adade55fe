-- The names, signatures and types that the contract fixes, and the hygiene of the catalog.
\ir ../include/helpers.psql
SELECT plan(25);

CREATE TEMP VIEW members AS
    SELECT classid, objid FROM pg_depend
     WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
       AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem');

CREATE TEMP VIEW functions AS
    SELECT p.* FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;

CREATE TEMP VIEW relations AS
    SELECT c.* FROM pg_class c JOIN members m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;

SELECT enum_has_labels('idem', 'idem_outcome',
    ARRAY['acquired', 'taken_over', 'in_flight', 'completed', 'mismatch', 'in_doubt'],
    'outcomes_are_those_of_the_contract');

CREATE FUNCTION pg_temp.columns_of(type regtype) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
      FROM pg_attribute
     WHERE attrelid = (SELECT typrelid FROM pg_type WHERE oid = type) AND attnum > 0 AND NOT attisdropped
$$;

SELECT is(pg_temp.columns_of('idem_ticket'),
    'outcome idem_outcome, fence bigint, attempt integer, lease_until timestamp with time zone, status_code integer, '
    'response jsonb, response_omitted boolean, recovery_point text, retry_after_ms integer',
    'ticket_has_the_columns_of_the_contract');

SELECT is(pg_temp.columns_of('idem_key_info'),
    'state text, status_code integer, response jsonb, response_omitted boolean, attempt integer, recovery_point text, '
    'created_at timestamp with time zone, expires_at timestamp with time zone, lease_until timestamp with time zone',
    'lookup_type_has_neither_fence_nor_owner');

SELECT is(pg_temp.columns_of('idem_http_answer'), 'action text, status integer, headers jsonb, body text, body_bytes bytea, fence bigint',
    'http_answer_has_the_columns_of_the_contract');

SELECT set_has(
    $$ SELECT proname::text, pg_get_function_identity_arguments(oid), pronargdefaults::int, pg_get_function_result(oid)
         FROM functions $$,
    $$ VALUES
       ('idem_claim', 'key text, ttl interval, scope text', 2, 'boolean'),
       ('idem_try_claim', 'key text, ttl interval, scope text', 2, 'idem_outcome'),
       ('idem_claim_many', 'keys text[], ttl interval, scope text', 2, 'SETOF text'),
       ('idem_begin',
        'key text, fingerprint bytea, ttl interval, lease interval, owner text, wait interval, scope text',
        6, 'idem_ticket'),
       ('idem_checkpoint', 'key text, recovery_point text, fence bigint, scope text', 1, 'void'),
       ('idem_renew', 'key text, fence bigint, lease interval, scope text', 2, 'timestamp with time zone'),
       ('idem_complete', 'key text, response jsonb, status_code integer, fence bigint, scope text', 4, 'boolean'),
       ('idem_release', 'key text, fence bigint, scope text', 1, 'boolean'),
       ('idem_lookup', 'key text, scope text', 1, 'SETOF idem_key_info'),
       ('idem_is_owner', 'key text, owner text, scope text', 1, 'boolean'),
       ('idem_must_claim', 'key text, ttl interval, scope text', 2, 'boolean'),
       ('idem_execute', 'key text, statement text, args jsonb, fingerprint bytea, ttl interval, scope text',
        4, 'idem_ticket'),
       ('idem_hit', 'key text, ttl interval, scope text', 2, 'bigint'),
       ('idem_serialize', 'key text, scope text', 1, 'boolean'),
       ('idem_lock', 'name text, ttl interval, owner text, wait interval, scope text', 4, 'bigint'),
       ('idem_lock_renew', 'name text, fence bigint, ttl interval, scope text', 2, 'boolean'),
       ('idem_unlock', 'name text, fence bigint, scope text', 1, 'boolean'),
       ('idem_assert_fence', 'name text, fence bigint, scope text', 1, 'boolean'),
       ('idem_forget', 'key text, scope text', 1, 'boolean'),
       ('idem_redact', 'key text, scope text', 1, 'boolean'),
       ('idem_resolve', 'key text, resolution text, response jsonb, status_code integer, scope text', 3, 'void'),
       ('idem_scope_reset', 'scope text, VARIADIC settings text[]', 0, 'boolean'),
       ('idem_scope_drop', 'scope text', 0, 'boolean'),
       ('idem_http_begin',
        'scope text, method text, route text, idempotency_key text, body text, body_bytes bytea, lease interval, wait interval, ttl interval',
        5, 'idem_http_answer'),
       ('idem_http_complete', 'scope text, idempotency_key text, status integer, headers jsonb, body text, body_bytes bytea, fence bigint', 4, 'boolean'),
       ('idem_http_key', 'idempotency_key text', 0, 'text'),
       ('idem_http_scope_set',
        'scope text, missing_key text, keyed_methods text[], unstored_statuses text[], documentation_url text, '
        'missing_key_status integer, malformed_key_status integer, mismatch_status integer, in_flight_status integer, in_doubt_status integer, stored_headers text[]', 10, 'void'),
       ('idem_machine_define', 'name text, definition jsonb', 0, 'void'),
       ('idem_machine_drop', 'name text', 0, 'void'),
       ('idem_machine_attach', 'target regclass, state_column name, machine text, log boolean, validate boolean', 2, 'void'),
       ('idem_machine_validate', 'target regclass, state_column name', 0, 'void'),
       ('idem_machine_detach', 'target regclass, state_column name', 0, 'void'),
       ('idem_can_transition', 'machine text, from_state text, to_state text', 0, 'boolean'),
       ('idem_check_transition', 'machine text, from_state text, to_state text', 0, 'void'),
       ('idem_machine_dot', 'name text', 0, 'text'),
       ('idem_machine_mermaid', 'name text', 0, 'text'),
       ('idem_state_guard', '', 0, 'trigger'),
       ('idem_version_guard', '', 0, 'trigger'),
       ('optimistic_enable', 'target regclass, version_column name', 1, 'void'),
       ('optimistic_disable', 'target regclass', 0, 'void'),
       ('idem_token_issue', 'subject text, ttl interval, scope text', 3, 'text'),
       ('idem_token_redeem', 'token text, subject text, scope text', 2, 'idem_token_outcome'),
       ('idem_token_rotate_secret', 'revoke boolean', 1, 'void'),
       ('idem_next_id', '', 0, 'bigint'),
       ('idem_id_parts', 'id bigint, OUT at timestamp with time zone, OUT node integer, OUT seq integer', 0, 'record'),
       ('idem_uuid_v7', '', 0, 'uuid'),
       ('idem_stats_reset', '', 0, 'void'),
       ('idem_publish', 'topic text, payload jsonb, key text, headers jsonb', 2, 'bigint'),
       ('idem_outbox_ack', 'ids bigint[], fence bigint', 0, 'integer'),
       ('idem_outbox_nack', 'ids bigint[], fence bigint, retry_after interval', 1, 'integer'),
       ('idem_outbox_retry', 'ids bigint[]', 0, 'integer'),
       ('idem_outbox_discard', 'ids bigint[]', 0, 'integer') $$,
    'functions_have_the_signatures_of_the_contract');

-- What answers with a record.
SELECT set_has(
    $$ SELECT proname::text, pg_get_function_arguments(oid), proretset FROM functions $$,
    $$ VALUES
       ('optimistic_update', 'target regclass, key jsonb, expected_version bigint, changes jsonb, OUT outcome text, OUT version bigint, '
                             'OUT row_data jsonb', false),
       ('conditional_update', 'target regclass, key jsonb, expected jsonb, changes jsonb, OUT outcome text, OUT row_data jsonb', false),
       ('conditional_adjust', 'target regclass, key jsonb, column_name name, delta numeric, minimum numeric DEFAULT 0, '
                              'maximum numeric DEFAULT NULL::numeric, OUT outcome text, OUT value numeric', false),
       ('pessimistic_lock', 'target regclass, key jsonb, wait interval DEFAULT NULL::interval, OUT outcome text, OUT row_data jsonb', false),
       ('pessimistic_lock_many', 'target regclass, keys jsonb[], wait interval DEFAULT NULL::interval, OUT outcome text, '
                                 'OUT row_data jsonb', true),
       ('unique_insert', 'target regclass, new_row jsonb, conflict_columns name[] DEFAULT NULL::name[], OUT outcome text, '
                         'OUT row_data jsonb', false),
       ('guarded_insert', 'target regclass, new_row jsonb, match_columns name[], OUT outcome text, OUT row_data jsonb', false),
       ('idem_transition', 'target regclass, key jsonb, from_state text, to_state text, OUT outcome text, '
                           'OUT state text', false),
       ('idem_in_flight', 'OUT scope text, OUT key text, OUT mode text, OUT pid integer, OUT since timestamp with time zone, '
                          'OUT lease_until timestamp with time zone', true),
       ('idem_outbox_take', 'topic text, max_messages integer DEFAULT 100, lease interval DEFAULT ''00:00:30''::interval, OUT id bigint, '
                            'OUT topic text, OUT key text, OUT payload jsonb, OUT headers jsonb, OUT attempt integer, OUT fence bigint', true),
       ('idem_version', 'OUT edition text, OUT version text, OUT server text', false),
       ('idem_health', 'OUT check_name text, OUT level text, OUT detail text', true) $$,
    'functions_that_answer_with_a_record_have_the_signatures_of_the_contract');

SELECT is(pg_temp.columns_of('idem_stats'),
    'scope text, acquired bigint, duplicates bigint, in_flight bigint, in_doubt bigint, mismatches bigint, takeovers bigint, '
    'stale_fences bigint, swept bigint, is_other boolean',
    'statistics_have_the_columns_of_the_contract');

SELECT set_has(
    $$ SELECT proname::text, oidvectortypes(proargtypes), pg_get_function_result(oid) FROM functions $$,
    $$ VALUES ('idem_key', '"any"', 'text'),
              ('idem_fingerprint', 'jsonb', 'bytea'),
              ('idem_fingerprint_text', 'text', 'bytea'),
              ('idem_fingerprint_bytes', 'bytea', 'bytea') $$,
    'pure_functions_have_the_types_of_the_contract');

SELECT set_has(
    $$ SELECT proname::text, pg_get_function_identity_arguments(oid), pronargdefaults::int FROM functions $$,
    $$ VALUES ('idem_scope_set',
               'scope text, ttl interval, keep_forever boolean, lease interval, on_lease_expiry text, '
               'max_response_size integer, owner regrole, response_ttl interval', 7),
              ('idem_grant', 'role regrole, operator boolean', 1),
              ('idem_revoke', 'role regrole', 0),
              ('idem_sweep', 'IN batch integer, IN pause interval', 2) $$,
    'administrative_functions_have_the_arguments_of_the_contract');

SELECT is(
    (SELECT string_agg(proname, ', ') FROM (SELECT proname FROM functions GROUP BY proname HAVING count(*) > 1) f),
    'idem_key', 'no_other_function_is_overloaded');

-- Comments.
SELECT is(
    (SELECT string_agg(oid::regprocedure::text, ', ') FROM functions WHERE obj_description(oid, 'pg_proc') IS NULL),
    NULL, 'every_function_has_a_comment');

-- From 17 on the types that come with others, arrays and the rows of tables, are members, too.
SELECT is(
    (SELECT string_agg(objid::regtype::text, ', ') FROM members JOIN pg_type t ON t.oid = objid LEFT JOIN pg_class c ON c.oid = typrelid
      WHERE classid = 'pg_type'::regclass AND typsubscript <> 'array_subscript_handler'::regproc AND coalesce(relkind, 'c') = 'c'
        AND obj_description(objid, 'pg_type') IS NULL),
    NULL, 'every_type_has_a_comment');

SELECT is(
    (SELECT string_agg(relname, ', ') FROM relations WHERE obj_description(oid, 'pg_class') IS NULL),
    NULL, 'every_table_has_a_comment');

SELECT is(
    (SELECT string_agg(relname || '.' || attname, ', ')
       FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND attnum > 0 AND NOT attisdropped
      WHERE relkind IN ('r', 'v') AND col_description(r.oid, attnum) IS NULL),
    NULL, 'every_column_of_a_table_has_a_comment');

SELECT is(
    (SELECT string_agg(typname || '.' || attname, ', ')
       FROM members m
       JOIN pg_type t ON m.classid = 'pg_type'::regclass AND m.objid = t.oid AND t.typtype = 'c'
       JOIN pg_attribute a ON a.attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
      WHERE col_description(t.typrelid, attnum) IS NULL),
    NULL, 'every_column_of_a_composite_type_has_a_comment');

-- What each function states about itself.
SELECT is(
    (SELECT string_agg(oid::regprocedure::text, ', ') FROM functions
      WHERE prosecdef
        AND NOT coalesce(proconfig && ARRAY['search_path=pg_catalog, pg_temp', 'search_path="pg_catalog, pg_temp"'],
                         false)),
    NULL, 'security_definer_functions_pin_their_search_path');

SELECT is(
    (SELECT string_agg(proname, ', ' ORDER BY proname) FROM functions
      WHERE proname IN ('idem_claim', 'idem_try_claim', 'idem_claim_many', 'idem_begin', 'idem_checkpoint',
                        'idem_renew', 'idem_complete', 'idem_release', 'idem_execute', 'idem_hit', 'idem_serialize',
                        'idem_lock', 'idem_lock_renew', 'idem_unlock', 'idem_assert_fence',
                        'idem_forget', 'idem_resolve', 'idem_redact', 'idem_scope_set', 'idem_scope_reset', 'idem_scope_drop', 'idem_http_begin', 'idem_http_complete',
                        'idem_http_scope_set', 'idem_grant',
                        'idem_revoke', 'idem_machine_define', 'idem_machine_drop', 'idem_machine_attach',
                        'idem_machine_detach', 'idem_machine_validate', 'idem_transition', 'optimistic_enable', 'optimistic_disable',
                        'optimistic_update', 'conditional_update', 'conditional_adjust', 'pessimistic_lock',
                        'pessimistic_lock_many', 'unique_insert', 'guarded_insert',
                        'idem_token_issue', 'idem_token_redeem', 'idem_token_rotate_secret', 'idem_next_id', 'idem_sweep', 'idem_publish',
                        'idem_outbox_take', 'idem_outbox_ack', 'idem_outbox_nack', 'idem_outbox_retry', 'idem_outbox_discard')
        AND (provolatile <> 'v' OR proparallel <> 'u')),
    NULL, 'what_writes_is_volatile_and_parallel_unsafe');

SELECT is(
    (SELECT string_agg(proname, ', ' ORDER BY proname) FROM functions
      WHERE proname IN ('idem_key', 'idem_fingerprint', 'idem_fingerprint_text', 'idem_fingerprint_bytes', 'idem_id_parts',
                        'idem_http_key')
        AND (provolatile <> 'i' OR proparallel <> 's')),
    NULL, 'what_is_pure_is_immutable_and_parallel_safe');

SELECT is(
    (SELECT string_agg(proname, ', ') FROM functions
      WHERE proname = 'idem_execute' AND (prosecdef OR proconfig IS NOT NULL)),
    NULL, 'execute_neither_changes_role_nor_settings');

-- The tables of names.
CREATE TEMP TABLE spaces AS
    SELECT 'idem.idem_keys'::regclass AS space UNION ALL SELECT 'idem.idem_tokens' UNION ALL SELECT 'idem.idem_locks' UNION ALL SELECT 'idem.idem_rates' UNION ALL SELECT 'idem.idem_counters';

SELECT is(
    (SELECT string_agg(space::text, ', ') FROM spaces
      WHERE NOT EXISTS (SELECT FROM pg_index i WHERE indrelid = space AND indisprimary AND
                               (SELECT array_agg(attname::text ORDER BY k) = '{scope,key}'
                                  FROM unnest(indkey) WITH ORDINALITY AS c (n, k)
                                  JOIN pg_attribute ON attrelid = space AND attnum = n))),
    NULL, 'names_are_unique_in_their_scope');

SELECT is(
    (SELECT string_agg(DISTINCT c.collname, ', ')
       FROM spaces JOIN pg_index i ON i.indrelid = space, unnest(i.indcollation) AS used JOIN pg_collation c ON c.oid = used),
    'C', 'names_are_compared_bytewise');

SELECT is(
    (SELECT count(*)::int FROM spaces JOIN pg_index ON indrelid = space), 5, 'no_index_on_columns_that_change');

SELECT is(
    (SELECT count(*)::int FROM spaces JOIN pg_class c ON c.oid = space, unnest(c.reloptions) option
      WHERE option ~ '^fillfactor=[1-9][0-9]$'),
    5, 'tables_leave_room_for_updates_in_place');

SELECT is(
    (SELECT count(DISTINCT pg_temp.columns_of(space::text::regtype))::int FROM spaces), 3, 'keys_tokens_and_locks_have_one_layout');

SELECT is(
    (SELECT string_agg(name, ', ')
       FROM unnest(ARRAY['idem_keys', 'idem_tokens', 'idem_locks', 'idem_rates', 'idem_scopes', 'idem_machines', 'idem_transition_log',
                         'idem_outbox', 'idem_outbox_parked']) AS name
      WHERE NOT EXISTS (SELECT FROM pg_extension, unnest(extconfig) AS dumped
                         WHERE extname = 'idem' AND dumped = ('idem.' || name)::regclass)),
    NULL, 'what_is_the_users_data_is_dumped');

SELECT * FROM finish();
