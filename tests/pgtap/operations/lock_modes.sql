-- The table of lock modes in docs/operations.md: what each call locks, of the caller's table and of idem's tables and
-- sequences. ACCESS SHARE is not in it.
\ir ../include/helpers.psql
\ir ../include/members.psql
SELECT plan(3);
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS locks_seen CASCADE;
DELETE FROM idem_machines WHERE starts_with(name, 'lock modes:');
CREATE SCHEMA locks_seen;
\set page `cat docs/operations.md`

-- The rows of the page: the first cell names calls in backquotes, or says in words what they do.
CREATE TEMP TABLE shown AS
    SELECT btrim(part[1]) AS call, btrim(part[2]) AS target, btrim(part[3]) AS of_idem
      FROM regexp_matches(:'page', '<!-- lock modes -->\n((?:\|[^\n]*\n)+)') AS found,
           regexp_split_to_table(found[1], '\n') WITH ORDINALITY AS l (line, n),
           regexp_match(line, '^\|([^|]*)\|([^|]*)\|([^|]*)\|') AS part
     WHERE n > 2 AND part IS NOT NULL;

CREATE TABLE locks_seen.item (id int PRIMARY KEY, name text, quantity int);
CREATE INDEX ON locks_seen.item (name);
INSERT INTO locks_seen.item VALUES (1, 'a', 5);
CREATE TABLE locks_seen.versioned (id int PRIMARY KEY, name text);
INSERT INTO locks_seen.versioned VALUES (1, 'a');
SELECT optimistic_enable('locks_seen.versioned');
CREATE TABLE locks_seen.prepared (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1);
CREATE TABLE locks_seen.moved (id int PRIMARY KEY, state text);
INSERT INTO locks_seen.moved VALUES (1, 'a');
SELECT idem_machine_define('lock modes:m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT idem_machine_attach('locks_seen.moved', 'state', 'lock modes:m', validate => false);
SELECT idem_claim('lock modes: done'), idem_forget('lock modes: fresh'), idem_scope_drop('lock modes:scope');
SELECT idem_scope_drop('lock modes:in'), idem_scope_drop('lock modes:manual'), idem_forget('lock modes: leased');
DELETE FROM idem_locks WHERE key = 'lock modes: held';
DELETE FROM idem_outbox WHERE topic = 'lock modes: held';
SELECT idem_ring_drop(ring) FROM idem_ring_registry WHERE starts_with(ring, 'lock modes:');
SELECT idem_ring_create('lock modes:ring', '1 day', 3), idem_ring_create('lock modes:idle', '1 day', 3);
SELECT idem_scope_set('lock modes:in', ring => 'lock modes:ring'), idem_scope_set('lock modes:manual', on_lease_expiry => 'manual');
SELECT fence FROM idem_begin('lock modes: leased', lease => '1 hour') \gset leased_
SELECT fence FROM idem_begin('lock modes: doubt', lease => '1 us', scope => 'lock modes:manual') \gset doubt_
SELECT idem_lock('lock modes: held') AS fence \gset lock_
SELECT idem_publish('lock modes: held', '1') AS id \gset message_
SELECT fence FROM idem_outbox_take('lock modes: held', 1, '1 hour') \gset message_

CREATE TEMP TABLE calls (call text, statement text);
INSERT INTO calls VALUES
    ('`idem_claim`, `idem_begin`, `idem_execute`, `idem_claim_many`, a new key', 'SELECT idem_claim(''lock modes: fresh'')'),
    ('the same, a duplicate', 'SELECT idem_claim(''lock modes: done'')'),
    ('the same, a new key in a ring', 'SELECT idem_claim(''lock modes: fresh'', scope => ''lock modes:in'')'),
    ('`idem_begin` with a lease, a new key', 'SELECT outcome FROM idem_begin(''lock modes: fresh'', lease => ''1 hour'')'),
    ('`idem_complete`, `idem_release`, `idem_renew`, `idem_step`', format('SELECT idem_renew(''lock modes: leased'', %s), idem_step(''lock modes: leased'', %1$s, ''a'', ''1''), idem_complete(''lock modes: leased'', fence => %1$s)', :leased_fence)),
    ('`idem_forget`, `idem_redact`', 'SELECT idem_redact(''lock modes: done''), idem_forget(''lock modes: done'')'),
    ('`idem_resolve`', 'SELECT idem_resolve(''lock modes: doubt'', ''completed'', scope => ''lock modes:manual'')'),
    ('`idem_consume`, `idem_verify_request`, `idem_webhook_receive`, `idem_http_begin`, a new key', 'SELECT idem_consume(''lock modes'', ''1'')'),
    ('`idem_serialize`', 'SELECT idem_serialize(''lock modes'')'),
    ('`idem_lookup`, `idem_is_owner`, `idem_in_flight`, `idem_health`', 'SELECT count(*) FROM idem_lookup(''lock modes: done'')'),
    ('`idem_token_redeem`', 'SELECT idem_token_redeem(idem_token_issue())'),
    ('`idem_lock`', 'SELECT idem_lock(''lock modes'')'),
    ('`idem_lock_renew`, `idem_unlock`', format('SELECT idem_lock_renew(''lock modes: held'', %s), idem_unlock(''lock modes: held'', %1$s)', :lock_fence)),
    ('`idem_assert_fence`', format('SELECT idem_assert_fence(''lock modes: held'', %s)', :lock_fence)),
    ('`idem_hit`', 'SELECT idem_hit(''lock modes'')'),
    ('`idem_allow`', 'SELECT idem_allow(''lock modes'', 1, 1)'),
    ('`idem_publish`', 'SELECT idem_publish(''lock modes'', ''1'', key => ''k'')'),
    ('`idem_outbox_take`', 'SELECT count(*) FROM idem_outbox_take(''lock modes'')'),
    ('`idem_outbox_ack`, `idem_outbox_nack`, `idem_outbox_renew`', format('SELECT idem_outbox_renew(ARRAY[%s], %s, ''1 hour''), idem_outbox_nack(ARRAY[%1$s], %2$s)', :message_id, :message_fence)),
    ('`idem_outbox_retry`, `idem_outbox_discard`', format('SELECT idem_outbox_retry(ARRAY[%s])', :message_id)),
    ('`idem_scope_set`, `idem_scope_reset`, `idem_scope_drop`, `idem_http_scope_set`', 'SELECT idem_scope_set(''lock modes:scope'', ttl => ''1 day''), idem_scope_reset(''lock modes:scope'', ''ttl''), idem_scope_drop(''lock modes:scope''), idem_http_scope_set(''lock modes:scope'', missing_key => ''reject'')'),
    ('`idem_scope_set` with `ring`', 'SELECT idem_scope_set(''lock modes:scope'', ring => ''lock modes:ring'')'),
    ('`idem_scope_reset` of `ring`', 'SELECT idem_scope_reset(''lock modes:in'', ''ring'')'),
    ('`idem_scope_drop` of a scope in a ring', 'SELECT idem_scope_drop(''lock modes:in'')'),
    ('`idem_ring_create`', 'SELECT idem_ring_create(''lock modes:new'', ''1 day'')'),
    ('`idem_ring_drop`', 'SELECT idem_ring_drop(''lock modes:idle'')'),
    ('`idem_ring_rebuild_filter`', 'SELECT idem_ring_rebuild_filter(''lock modes:ring'')'),
    ('`idem_grant`, `idem_revoke`', 'SELECT idem_grant(''pg_read_all_stats''), idem_revoke(''pg_read_all_stats'')'),
    ('`idem_next_id`', 'SELECT idem_next_id()'),
    ('`idem_token_issue`', 'SELECT idem_token_issue()'),
    ('`idem_token_rotate_secret`', 'SELECT idem_token_rotate_secret()'),
    ('`idem_api_key_set`, `idem_api_key_drop`', 'SELECT idem_api_key_set(''lock modes'', ''\x00112233445566778899aabbccddeeff''), idem_api_key_drop(''lock modes'')'),
    ('`idem_webhook_source_set`, `idem_webhook_source_drop`', 'SELECT idem_webhook_source_set(''lock modes'', ''github'', ''\x00112233445566778899aabbccddeeff''), idem_webhook_source_drop(''lock modes'')'),
    ('`optimistic_update`, `conditional_update`, `conditional_adjust`', 'SELECT conditional_adjust(''locks_seen.item'', ''{"id": 1}'', ''quantity'', 1)'),
    ('`unique_insert`, `guarded_insert`', 'SELECT unique_insert(''locks_seen.item'', ''{"id": 2}'')'),
    ('`pessimistic_lock`, `pessimistic_lock_many`', 'SELECT pessimistic_lock(''locks_seen.item'', ''{"id": 1}'')'),
    ('`idem_transition`', 'SELECT idem_transition(''locks_seen.moved'', ''{"id": 1}'', ''a'', ''b'')'),
    ('`optimistic_enable`, the column is missing', 'SELECT optimistic_enable(''locks_seen.item'')'),
    ('`optimistic_enable`, the column is there', 'SELECT optimistic_enable(''locks_seen.prepared'')'),
    ('`optimistic_disable`', 'SELECT optimistic_disable(''locks_seen.versioned'')'),
    ('`idem_machine_attach`, with or without validation', 'SELECT idem_machine_attach(''locks_seen.item'', ''name'', ''lock modes:m'')'),
    ('`idem_machine_validate`', 'SELECT idem_machine_validate(''locks_seen.moved'', ''state'')'),
    ('`idem_machine_detach`', 'SELECT idem_machine_detach(''locks_seen.moved'', ''state'')'),
    ('`idem_machine_define` of a new machine, `idem_machine_drop`', 'SELECT idem_machine_define(''lock modes:new'', ''{"initial": ["a"], "transitions": {"a": ["b"]}}''), idem_machine_drop(''lock modes:new'')'),
    ('`idem_machine_define` of a machine that is attached', 'SELECT idem_machine_define(''lock modes:m'', ''{"initial": ["a"], "transitions": {"a": ["b", "c"]}}'')');

-- The tables and sequences that are there before a call: those that it creates nobody can wait for, and those that it drops are in no catalog afterwards.
CREATE TEMP TABLE lockable AS
    SELECT oid, regexp_replace(regexp_replace(relname, '^idem_ring_\d+', 'idem_ring_<id>'), '>_\d+$', '>_<n>') AS name, relnamespace = 'locks_seen'::regnamespace AS is_target
      FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace IN ('locks_seen'::regnamespace, 'idem'::regnamespace);

-- The strongest mode on each table and sequence, of the caller's and of idem's. In a subtransaction, whose locks end with it.
CREATE FUNCTION pg_temp.locks_of(statement text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    seen text[];
BEGIN
    EXECUTE statement;
    WITH strengths (mode, name, strength) AS (
        VALUES ('RowShareLock', 'ROW SHARE', 2), ('RowExclusiveLock', 'ROW EXCLUSIVE', 3), ('ShareUpdateExclusiveLock', 'SHARE UPDATE EXCLUSIVE', 4),
               ('ShareLock', 'SHARE', 5), ('ShareRowExclusiveLock', 'SHARE ROW EXCLUSIVE', 6), ('ExclusiveLock', 'EXCLUSIVE', 7),
               ('AccessExclusiveLock', 'ACCESS EXCLUSIVE', 8)),
    strongest AS (
        SELECT DISTINCT ON (r.name) r.name AS relation, is_target, s.name
          FROM pg_locks l JOIN lockable r ON r.oid = l.relation JOIN strengths s USING (mode)
         WHERE pid = pg_backend_pid() AND granted
         ORDER BY r.name, strength DESC)
    SELECT ARRAY[coalesce(string_agg(DISTINCT name, ', ') FILTER (WHERE is_target), '–'),
                 coalesce(string_agg(format('%s on `%s`', name, relation), ', ' ORDER BY relation COLLATE "C") FILTER (WHERE NOT is_target), '–')] INTO seen FROM strongest;
    RAISE EXCEPTION USING errcode = 'LOCKS', message = array_to_string(seen, '|');
EXCEPTION WHEN SQLSTATE 'LOCKS' THEN
    RETURN string_to_array(SQLERRM, '|');
END $$;

-- Each in a transaction of its own.
CREATE TEMP TABLE seen (call text, locks text[]);
SELECT format('INSERT INTO seen SELECT %L, pg_temp.locks_of(%L)', call, statement) FROM calls \gexec

SELECT isnt((SELECT count(*) FROM shown), 0::bigint, 'the_page_has_the_table');
SELECT is((SELECT array_agg(call ORDER BY call) FROM shown WHERE call NOT LIKE '%CALL%'), (SELECT array_agg(call ORDER BY call) FROM calls), 'each_line_is_tried');
SELECT is((SELECT string_agg(format('%s: %s; %s', call, locks[1], locks[2]), E'\n' ORDER BY call) FROM seen),
          (SELECT string_agg(format('%s: %s; %s', call, target, of_idem), E'\n' ORDER BY call) FROM shown WHERE call NOT LIKE '%CALL%'), 'the_modes_are_those_of_the_page');

DROP SCHEMA locks_seen CASCADE;
SELECT idem_machine_drop('lock modes:m'), idem_forget('lock modes: done'), idem_forget('lock modes: leased'), idem_forget('lock modes: doubt', 'lock modes:manual');
SELECT idem_scope_drop('lock modes:in'), idem_scope_drop('lock modes:manual'), idem_outbox_nack(ARRAY[:message_id], :message_fence), idem_unlock('lock modes: held', :lock_fence);
DELETE FROM idem_locks WHERE key = 'lock modes: held';
DELETE FROM idem_outbox WHERE topic = 'lock modes: held';
SELECT idem_ring_drop(ring) FROM idem_ring_registry WHERE starts_with(ring, 'lock modes:');
SELECT * FROM finish();
