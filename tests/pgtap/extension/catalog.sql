-- What holds for every object of the extension: comments, what functions state about themselves, the layout of tables. contract.sql has their
-- signatures.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(20);

CREATE FUNCTION pg_temp.columns_of(type regtype) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
      FROM pg_attribute
     WHERE attrelid = (SELECT typrelid FROM pg_type WHERE oid = type) AND attnum > 0 AND NOT attisdropped
$$;

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
      WHERE classid = 'pg_type'::regclass AND typcategory <> 'A' AND coalesce(relkind, 'c') = 'c'
        AND obj_description(objid, 'pg_type') IS NULL),
    NULL, 'every_type_has_a_comment');

SELECT is(
    (SELECT string_agg(relname, ', ') FROM relations WHERE obj_description(oid, 'pg_class') IS NULL),
    NULL, 'every_table_has_a_comment');

SELECT is(
    (SELECT string_agg(relname || '.' || attname, ', ')
       FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND attnum > 0 AND NOT attisdropped
      WHERE relkind IN ('r', 'v') AND relname NOT LIKE '\_idem\_%' AND col_description(r.oid, attnum) IS NULL),
    NULL, 'every_column_of_a_table_has_a_comment');

SELECT is(
    (SELECT string_agg(typname || '.' || attname, ', ')
       FROM members m
       JOIN pg_type t ON m.classid = 'pg_type'::regclass AND m.objid = t.oid AND t.typtype = 'c' AND typname NOT LIKE '\_idem\_%'
       JOIN pg_attribute a ON a.attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
      WHERE col_description(t.typrelid, attnum) IS NULL),
    NULL, 'every_column_of_a_composite_type_has_a_comment');

-- Prisma can read neither void nor interval. Functions for set-up and for operators may return void: no application branches on them.
CREATE TEMP TABLE of_set_up AS
    SELECT unnest('{optimistic_enable,optimistic_disable,idem_machine_attach,idem_machine_validate,idem_machine_detach}'::text[]) AS name;

BEGIN;
SELECT pg_advisory_xact_lock(hashtext('idem pgtap grants'));
CREATE ROLE tap_caller;
SELECT idem_grant('tap_caller');
CREATE TEMP TABLE results AS
    SELECT proname::text AS name, type
      FROM functions LEFT JOIN pg_class c ON c.reltype = prorettype LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped,
           unnest(ARRAY[prorettype, atttypid] || (SELECT array_agg(given) FROM unnest(proallargtypes, proargmodes) AS p (given, mode)
                                                   WHERE mode IN ('o', 'b', 't'))) AS type
     WHERE prokind <> 'p' AND prorettype <> 'trigger'::regtype AND proname NOT LIKE '\_idem\_%' AND has_function_privilege('tap_caller', functions.oid, 'EXECUTE');
SELECT array_agg(DISTINCT format('%s %s', name, type::regtype)) FILTER (WHERE type IN ('void'::regtype, 'interval'::regtype, 'interval[]'::regtype)) AS unreadable FROM results \gset
ROLLBACK;
SELECT is(
    (SELECT string_agg(result, ', ') FROM unnest(:'unreadable'::text[]) AS result WHERE result NOT IN (SELECT name || ' void' FROM of_set_up)),
    NULL, 'no_function_for_applications_returns_void_or_interval');
SELECT is(
    (SELECT string_agg(name, ', ') FROM of_set_up WHERE name || ' void' <> ALL (:'unreadable'::text[])),
    NULL, 'what_is_listed_as_set_up_returns_void');

-- What each function states about itself.
SELECT is(
    (SELECT string_agg(oid::regprocedure::text, ', ') FROM functions, idem_version()
      WHERE prosecdef
        AND NOT coalesce(proconfig && ARRAY['search_path=pg_catalog, pg_temp', 'search_path="pg_catalog, pg_temp"',
                                            CASE edition WHEN 'portable' THEN 'search_path=idem, pg_temp' END],
                         false)),
    NULL, 'security_definer_functions_pin_their_search_path');

SELECT is(
    (SELECT string_agg(proname, ', ') FROM functions
      WHERE prosecdef AND prosrc ~* '\mCREATE\s+(UNIQUE\s+)?(TABLE|INDEX|MATERIALIZED|SEQUENCE)'
        AND NOT coalesce(proconfig @> ARRAY['default_tablespace=', 'default_table_access_method=heap'], false)),
    NULL, 'security_definer_functions_that_create_relations_say_where_and_how');

SELECT is(
    (SELECT string_agg(proname, ', ' ORDER BY proname) FROM functions
      WHERE proname IN ('idem_claim', 'idem_try_claim', 'idem_claim_many', 'idem_begin', 'idem_step',
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
                        'idem_http_profiles')
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

-- A dump orders objects by their dependencies. The server records one for a constant 'name'::regclass, but not for an array of them, nor for a text that
-- becomes one when it is evaluated.
CREATE TEMP TABLE definitions AS
    SELECT 'pg_class'::regclass AS classid, oid AS objid, pg_get_viewdef(oid) AS definition FROM relations WHERE relkind = 'v'
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid, pg_get_expr(adbin, adrelid) FROM pg_attrdef d JOIN relations r ON r.oid = adrelid
    UNION ALL SELECT 'pg_constraint'::regclass, c.oid, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN relations r ON r.oid = conrelid
    UNION ALL SELECT 'pg_class'::regclass, indexrelid, pg_get_indexdef(indexrelid) FROM pg_index JOIN relations r ON r.oid = indrelid
    UNION ALL SELECT 'pg_trigger'::regclass, t.oid, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN relations r ON r.oid = tgrelid
    UNION ALL SELECT 'pg_proc'::regclass, oid, concat(pg_get_function_arguments(oid), pg_get_function_sqlbody(oid)) FROM functions;

SELECT is(
    (SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY objid) FROM definitions
      WHERE definition ~ '::(pg_catalog\.)?reg[a-z]+\[\]|::text\)*::(pg_catalog\.)?reg|\mto_reg|\mnextval\(''[^'']*''::text'),
    NULL, 'no_definition_hides_a_dependency_from_a_dump');

SELECT * FROM finish();
