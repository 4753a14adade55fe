-- NULL for an optional argument means that it was not given (contract, section 2): drivers and ORMs pass NULL for what is absent.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(5);
CALL pg_temp.clean('null:');
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));

-- Every routine with optional arguments, and values for the others.
CREATE TEMP TABLE calls (name text, required text);
INSERT INTO calls VALUES
    ('conditional_adjust', $$'null_rows', '{"id": 1}', 'quantity', 1$$),
    ('idem_allow', $$'null:', 1, 5$$),
    ('idem_api_key_set', $$'null:', 'sixteen bytes or more'$$),
    ('idem_assert_fence', $$'null:lock', pg_temp.fence('lock')$$),
    ('idem_begin', $$'null:begin'$$),
    ('idem_claim', $$'null:claim'$$),
    ('idem_claim_many', $$'{null:many}'$$),
    ('idem_complete', $$'null:claimed'$$),
    ('idem_consume', $$'null:', 'message'$$),
    ('idem_execute', $$'null:execute', 'SELECT 1'$$),
    ('idem_forget', $$'null:'$$),
    ('idem_grant', $$'tap_null'$$),
    ('idem_hit', $$'null:'$$),
    ('idem_hits', $$'null:'$$),
    ('idem_http_begin', $$'null:', 'POST', '/orders', 'null:http'$$),
    ('idem_http_complete', $$'null:', 'null:begun', 201$$),
    ('idem_http_key', $$'null:'$$),
    ('idem_http_scope_set', $$'null:'$$),
    ('idem_is_owner', $$'null:', 'me'$$),
    ('idem_lock', $$'null:other'$$),
    ('idem_lock_renew', $$'null:lock', pg_temp.fence('lock')$$),
    ('idem_lookup', $$'null:'$$),
    ('idem_machine_attach', $$'null_rows', 'state', 'null:'$$),
    ('idem_must_claim', $$'null:must'$$),
    ('idem_outbox_nack', $$'{1}', 1$$),
    ('idem_outbox_renew', $$'{1}', 1$$),
    ('idem_outbox_take', $$'null:'$$),
    ('idem_publish', $$'null:', '{}'$$),
    ('idem_redact', $$'null:'$$),
    ('idem_release', $$'null:withdrawn'$$),
    ('idem_renew', $$'null:leased', pg_temp.fence('leased')$$),
    ('idem_resolve', $$'null:lapsed', 'completed'$$),
    ('idem_ring_create', $$'null:', '1 h'$$),
    ('idem_scope_set', $$'null:'$$),
    ('idem_serialize', $$'null:'$$),
    ('idem_step', $$'null:leased', pg_temp.fence('leased'), 'charge'$$),
    ('idem_sweep', ''),
    ('idem_token_issue', ''),
    ('idem_token_redeem', 'idem_token_issue()'),
    ('idem_token_rotate_secret', ''),
    ('idem_transition', $$'null_moved', '{"id": 1}', NULL, 'b'$$),
    ('idem_try_claim', $$'null:try'$$),
    ('idem_unlock', $$'null:freed', pg_temp.fence('freed')$$),
    ('idem_verify_request', $$'{}', 's', 'k', now(), 'n'$$),
    ('idem_webhook_source_set', $$'null:', 'slack', 'sixteen bytes or more'$$),
    ('optimistic_enable', $$'null_rows'$$),
    ('pessimistic_lock', $$'null_rows', '{"id": 1}'$$),
    ('pessimistic_lock_many', $$'null_rows', ARRAY['{"id": 1}']::jsonb[]$$),
    ('unique_insert', $$'null_rows', '{"id": 2, "quantity": 1, "state": "a"}'$$);
CREATE TEMP TABLE optional AS
    SELECT p.proname::text AS name, concat_ws(', ', VARIADIC array_fill('NULL'::text, ARRAY[p.pronargdefaults::int])) AS arguments,
           CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT * FROM' END AS verb
      FROM functions p WHERE p.pronargdefaults > 0 AND proname NOT LIKE '\_idem\_%';
-- Of the portable edition alone.
INSERT INTO calls SELECT name, '' FROM optional WHERE name = 'idem_citus_distribute';
SELECT set_eq('SELECT name FROM optional', 'SELECT name FROM calls', 'every_routine_with_optional_arguments_is_called');

CREATE TEMP TABLE fences (name text, fence bigint);
CREATE FUNCTION pg_temp.fence(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT f.fence FROM fences f WHERE f.name = $1 $$;

-- A procedure commits, which no function may (2D000).
BEGIN;
CREATE ROLE tap_null;
CREATE TABLE public.null_rows (id int PRIMARY KEY, quantity int NOT NULL, state text NOT NULL);
INSERT INTO null_rows VALUES (1, 1, 'a');
SELECT idem_machine_define('null:', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
CREATE TABLE public.null_moved (id int PRIMARY KEY, state text);
SELECT idem_machine_attach('null_moved', 'state', 'null:');
INSERT INTO fences SELECT name, idem_lock('null:' || name, '1 hour') FROM unnest('{lock,freed}'::text[]) name;
INSERT INTO fences SELECT name, (SELECT fence FROM idem_begin('null:' || name, lease => '1 hour')) FROM unnest('{leased}'::text[]) name;
SELECT idem_claim('null:claimed'), idem_claim('null:withdrawn');
SELECT action FROM idem_http_begin('null:', 'POST', '/orders', 'null:begun');
SELECT outcome FROM idem_begin('null:lapsed', lease => '1 ms');
CALL pg_temp.sleep('2 ms');
SELECT coalesce(string_agg(format('%s %s', statement, state), '; '), 'none') AS others
  FROM idem_version(), calls JOIN optional USING (name),
       format('%s idem.%s(%s)', verb, name, concat_ws(', ', nullif(required, ''), arguments)) AS statement,
       pg_temp.state_of(statement) AS state
 WHERE state <> CASE WHEN verb = 'CALL' THEN '2D000' WHEN name = 'idem_ring_create' AND edition = 'portable' THEN '0A000'
                     WHEN name = 'idem_citus_distribute' THEN '55000' ELSE 'ok' END \gset
ROLLBACK;
SELECT is(:'others'::text, 'none', 'null_is_not_given');

-- And it is the default.
SELECT is((SELECT idem_token_redeem(idem_token_issue(NULL, NULL))::text), 'accepted', 'null_subject_is_the_empty_one');
SELECT is((SELECT remaining FROM idem_allow('null:cost', 1e-3, 5, NULL)), 4, 'null_cost_is_one');
CALL pg_temp.clean('null:');
DELETE FROM idem_outbox WHERE topic = 'null:topic';
SELECT idem_publish('null:topic', '{}');
SELECT fence AS taken FROM idem_outbox_take('null:topic', NULL, NULL) \gset
SELECT ok(lease_until - clock_timestamp() BETWEEN '25 s' AND '30 s', 'null_lease_is_half_a_minute') FROM idem_outbox_leases WHERE fence = :taken;
SELECT idem_outbox_ack(array_agg(i), l.fence) FROM idem_outbox_leases l, unnest(ids) i WHERE topic = 'null:topic' GROUP BY l.fence;
SELECT * FROM finish();
