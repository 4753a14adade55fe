# Memory: each function is called many times in one backend, a transaction for each call and all calls in one statement, and
# the backend is no larger afterwards. LEAK_CALLS says how many times (a million take
# hours), LEAK_ONLY which of the cases (a pattern).

use strict;
use warnings;

use IdemCluster;
use List::Util 'max';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $calls = $ENV{LEAK_CALLS} // 2000;
my $only = $ENV{LEAK_ONLY} // '';

# What a backend may grow by over all calls: bytes in memory contexts that outlive a transaction; kB of resident memory when
# each call has a transaction, and when all are in one, whose own memory may leave holes.
my $max_bytes = 16 * 1024;
my %max_resident = (each => 1024, 'at once' => 1024 + $calls / 64);

# malloc is to give back what is free at its end: left alone, it learns to keep more the more it was asked for.
local $ENV{MALLOC_TRIM_THRESHOLD_} = local $ENV{MALLOC_MMAP_THRESHOLD_} = 128 * 1024;

my $node = start_server('leaks',
    conf => "shared_preload_libraries = 'idem'\nlog_statement = none\nmax_locks_per_transaction = 256\nmax_wal_size = 4GB\n"
      . "synchronous_commit = off\njit = off\n");

# --- The cases --------------------------------------------------------------------------------------------------------------
#
# Name, then what is called as expressions of the number i, or as PL/pgSQL; or (caught) the state of the error that the
# statement, made of i by format(), is to end with.
#
# weight: a call stands for so many of others.
# changes: how often a row is changed that the same transaction made. The server remembers each, until the transaction ends.
# kept: bytes that a call leaves in its transaction's memory for another reason: what the server notes of changes to the
#       catalogs, of the columns of a function that returns a set, or of a trigger that ended in an error.
# swings: bytes by which the server's caches differ from one moment to the next where the catalogs are changed.

my @cases = (
    [ claim => expressions => q{idem_claim('claim ' || i, '1 ms'), idem_must_claim('must claim ' || i, '1 ms')} ],
    [ claim_again => expressions => q{idem_claim('done')} ],
    [ try_claim => expressions => q{idem_try_claim('try ' || i, '1 ms')} ],
    [ try_claim_again => expressions => q{idem_try_claim('done'), idem_try_claim('leased')} ],
    [ claim_many => expressions => q{
        (SELECT count(*) FROM idem_claim_many(ARRAY['many ' || i, 'done', 'many ' || i, 'more ' || i], '1 ms'))} ],
    [ ring => expressions => q{idem_claim('ring ' || i, scope => 'ringed'), idem_try_claim('again', scope => 'ringed'), idem_claim('sealed', scope => 'ringed'),
        (SELECT count(*) FROM idem_claim_many(ARRAY['r ' || i, 'sealed', 's ' || i, 'again'], scope => 'ringed')), (SELECT count(*) FROM idem_lookup('sealed', 'ringed'))} ],
    [ rings => weight => 40, expressions => q{(SELECT count(*) FROM idem_rings)} ],
    [ begin => changes => 1, plpgsql => q{
        PERFORM idem_begin('begin ' || i, idem_fingerprint('{"a": 1}'), '1 ms');
        PERFORM idem_complete('begin ' || i, '{"a": [1, 2, 3]}', 200);
        PERFORM * FROM idem_lookup('begin ' || i);} ],
    [ replay => expressions => q{idem_begin('large'), idem_begin('done', 'other'),
        (SELECT length(response::text) FROM idem_lookup('large')), idem_is_owner('large', 'owner')} ],
    [ leased => changes => 4, plpgsql => q{
        t := idem_begin('lease ' || i, ttl => '1 ms', lease => '1 h', owner => 'me');
        t := idem_begin('lease ' || i, ttl => '1 ms', lease => '1 h', owner => 'me');
        PERFORM idem_begin('lease ' || i, lease => '1 h', owner => 'somebody else');
        PERFORM idem_step('lease ' || i, t.fence, 'half'), idem_renew('lease ' || i, t.fence, '2 h');
        PERFORM idem_complete('lease ' || i, '"done"', 200, t.fence), idem_complete('lease ' || i, '"done"', 200, t.fence);} ],
    [ released => changes => 2, plpgsql => q{
        t := idem_begin('release ' || i, ttl => '1 ms', lease => '1 h');
        PERFORM idem_release('release ' || i, t.fence);
        PERFORM idem_begin('release ' || i, ttl => '1 ms');} ],
    [ given_back => changes => 4, plpgsql => q{
        PERFORM idem_claim('given back ' || i);
        PERFORM idem_release('given back ' || i);
        t := idem_begin('given back ' || i, ttl => '1 ms', lease => '1 h');
        PERFORM idem_release('given back ' || i, t.fence);
        PERFORM idem_claim('given back ' || i);
        PERFORM idem_release('given back ' || i);} ],
    [ taken_over => changes => 1, plpgsql => q{
        PERFORM idem_begin('lapse ' || i / 3, ttl => '1 ms', lease => '1 us');
        IF i % 3 = 2 THEN PERFORM idem_try_claim('lapse ' || i / 3, ttl => '1 ms'); END IF;} ],
    [ in_doubt => changes => 4, plpgsql => q{
        t := idem_begin('doubt ' || i, lease => '1 us', scope => 'manual');
        t := idem_begin('doubt ' || i, lease => '1 us', scope => 'manual');
        PERFORM idem_resolve('doubt ' || i, 'completed', '"so it was"', 200, 'manual');
        PERFORM idem_redact('doubt ' || i, 'manual'), idem_forget('doubt ' || i, 'manual');} ],
    [ execute => changes => 1, expressions => q{
        idem_execute('execute ' || i, 'SELECT $1::int + 1 AS sum, $2 AS word', jsonb_build_array(i, 'x'), ttl => '1 ms'),
        idem_execute('executed', 'SELECT 1 AS one')} ],
    [ hit => changes => 1, expressions => q{idem_hit('hit ' || i, '1 ms'), idem_hit('hit ' || i % 1000)} ],
    [ hits => kept => 700, expressions => q{(SELECT hits FROM idem_hits('hit ' || i % 1000))} ],
    [ serialize => expressions => q{idem_serialize('serialize ' || i % 20)} ],
    [ consume => expressions => q{idem_consume('me', 'message ' || i, '1 ms'), idem_consume('me', 'seen')} ],
    [ http => changes => 2, plpgsql => q{
        PERFORM idem_http_begin('web', 'POST', '/pay', '"http-' || i || '"', '\x01', ttl => '1 ms');
        PERFORM idem_http_complete('web', 'http-' || i, 201, '{"Location": "/1", "Set-Cookie": "x"}', '{"id": 1}');
        PERFORM idem_http_begin('web', 'POST', '/pay', 'http-' || i, '\x01'), idem_http_complete('web', 'http-' || i, 201), -- it may have expired
                idem_http_begin('web', 'POST', '/other', 'http-' || i, '\x01'),
                idem_http_begin('web', 'POST', '/pay', NULL), idem_http_begin('web', 'POST', '/pay', '"'), idem_http_begin('web', 'GET', '/pay', NULL),
                idem_http_begin('web', 'POST', '/pay', 'leased'), idem_http_key('"a\"b"; c=1');} ],
    [ http_json => changes => 1, plpgsql => q{
        PERFORM idem_http_begin('api/me', 'POST', '/pay', 'json-' || i, '{"a": [1, {"b": 2}]}', ttl => '1 ms', content_type => 'application/json');
        PERFORM idem_http_complete('api/me', 'json-' || i, 201, body => '{}');
        PERFORM idem_http_begin('api/me', 'POST', '/pay', 'json-' || i, '{"a":2}', content_type => 'a/b+json'),
                idem_http_begin('api/me', 'POST', '/pay', 'none-' || i, '{"a": }', ttl => '1 ms', content_type => 'application/json'),
                idem_http_begin('api/me', 'POST', '/pay', 'two-' || i, '{"a":1,"a":2}', ttl => '1 ms', content_type => 'application/json'),
                idem_http_begin('api/me', 'POST', '/pay', 'form-' || i, fingerprint => '\x01', ttl => '1 ms'), idem_http_key('k', 'api/me');} ],
    [ allow => changes => 1, expressions => q{idem_allow('door ' || i, 1000, 5), idem_allow('door ' || i % 100, 1e9, 100),
        idem_allow('closed', 1e-6, 1)} ],
    [ verify => expressions => q{
        idem_verify_request('{"b": [1, {"d": 2, "c": "\n"}], "a": 1.50}', repeat('0', 64), 'sender', clock_timestamp(), 'n'),
        idem_verify_request('{}', repeat('0', 64), 'nobody', clock_timestamp(), 'n'),
        idem_request_message('{"b": [1, {"d": 2, "c": "\n"}], "a": 1.50}', 'sender', clock_timestamp(), 'n')} ],
    [ webhook => expressions => q{
        idem_webhook_receive('github', jsonb_build_object('X-GitHub-Delivery', ARRAY['seen'], 'X-Hub-Signature-256', 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'), 'Hello, World!'),
        idem_webhook_receive('github', '{"X-Hub-Signature-256": ["sha256=00", "sha256=01"]}', 'Hello, World!'), idem_webhook_receive('nobody', '{}', '')} ],
    [ outbox => changes => 6, plpgsql => q{
        PERFORM idem_publish('letters', '{"a": 1}', 'key ' || i % 7, '{"h": 1}'), idem_publish('letters', '{"a": 2}', 'key ' || i % 7);
        PERFORM idem_outbox_nack(array_agg(o.id), min(o.fence), '0') FROM idem_outbox_take('letters') o;
        PERFORM idem_outbox_ack(array_agg(o.id), min(o.fence)) FROM idem_outbox_take('letters') o;
        PERFORM idem_outbox_ack(array_agg(o.id), min(o.fence)) FROM idem_outbox_take('letters') o;
        PERFORM idem_outbox_retry(ARRAY[i]), idem_outbox_discard(ARRAY[i]), idem_outbox_ack(ARRAY[i], i);
        PERFORM * FROM idem_dead_letters;} ],
    [ outbox_batch => changes => 6, plpgsql => q{
        PERFORM idem_publish('batches', '{"a": 1}', delay => '1 ms', dedup_id => 'message ' || i % 1000),
                idem_publish_many('batches', jsonb_build_array('{"payload": 1, "key": "k"}'::jsonb,
                    jsonb_build_object('payload', i, 'headers', '{"h": 1}'::jsonb, 'dedup_id', 'message ' || i % 1000)));
        PERFORM idem_outbox_renew(array_agg(o.id), min(o.fence), '1 min'), idem_outbox_ack(array_agg(o.id), min(o.fence))
           FROM idem_outbox_take('batches') o;} ],
    [ token => plpgsql => q{
        token := idem_token_issue('user ' || i, '1 s');
        PERFORM idem_token_redeem(token, 'user ' || i), idem_token_redeem(token, 'user ' || i),
                idem_token_redeem(token, 'another'), idem_token_redeem('x' || token, 'user ' || i);} ],
    [ numbers => expressions => q{idem_id_parts(idem_next_id()), idem_uuid_v7()} ],
    [ values => expressions => q{
        idem_key('a', i, i::numeric / 3, current_date, true, '00000000-0000-0000-0000-000000000000'::uuid),
        idem_fingerprint(jsonb_build_object('a', i, 'b', ARRAY[1.50, 2], 'c', NULL, 'd', repeat('é"', i % 100))),
        idem_fingerprint_text('text ' || i), idem_fingerprint_bytes('\x00ff')} ],
    [ lock => changes => 4, plpgsql => q{
        fence := idem_lock('lock ' || i % 20, '1 h', 'me');
        fence := idem_lock('lock ' || i % 20, '1 h', 'me');
        PERFORM idem_lock('lock ' || i % 20, '1 h', 'somebody else'), idem_lock_renew('lock ' || i % 20, fence),
                idem_assert_fence('lock ' || i % 20, fence), idem_unlock('lock ' || i % 20, fence),
                idem_unlock('lock ' || i % 20, fence);} ],
    [ optimistic => changes => 2, plpgsql => q{
        SELECT version INTO fence FROM stock WHERE id = i % 1000;
        PERFORM optimistic_update('stock', jsonb_build_object('id', i % 1000), fence, '{"note": "changed"}'),
                optimistic_update('stock', jsonb_build_object('id', i % 1000), 0, '{"note": "changed"}'),
                optimistic_update('stock', '{"id": -1}', 0, '{"note": "changed"}');} ],
    [ conditional => changes => 2, expressions => q{
        conditional_update('stock', jsonb_build_object('id', i % 1000), '{"note": null}', '{"note": null}'),
        conditional_update('stock', jsonb_build_object('id', i % 1000), '{"amount": -1}', '{"note": "never"}'),
        conditional_adjust('stock', jsonb_build_object('id', i % 1000), 'amount', 1),
        conditional_adjust('stock', jsonb_build_object('id', i % 1000), 'amount', -1000000000)} ],
    [ pessimistic => kept => 700, expressions => q{
        pessimistic_lock('stock', jsonb_build_object('id', i % 1000)), pessimistic_lock('stock', '{"id": -1}', '0'),
        (SELECT count(*) FROM pessimistic_lock_many('stock',
            ARRAY[jsonb_build_object('id', i % 1000), jsonb_build_object('id', i % 7), '{"id": -1}']))} ],
    [ inserts => expressions => q{unique_insert('stock', jsonb_build_object('id', i % 1000 + 1)),
        guarded_insert('plain', jsonb_build_object('value', i % 20), '{value}')} ],
    [ machine => expressions => q{
        idem_can_transition('order', 'a', 'b'), idem_check_transition('order', 'a', 'b'), idem_machine_dot('order'),
        idem_machine_mermaid('order')} ],
    [ transition => changes => 5, plpgsql => q{
        PERFORM idem_transition('orders', jsonb_build_object('id', i % 1000), NULL, 'b'),
                idem_transition('orders', jsonb_build_object('id', i % 1000), NULL, 'b'),
                idem_transition('orders', jsonb_build_object('id', i % 1000), 'a', 'c'),
                idem_transition('orders', jsonb_build_object('id', i % 1000), NULL, 'c'),
                idem_transition('orders', '{"id": -1}', NULL, 'c');
        UPDATE orders SET state = 'a' WHERE id = i % 1000;} ],
    [ moved => changes => 1, plpgsql => q{
        UPDATE moving SET region = 1 - region, state = CASE state WHEN 'a' THEN 'b' ELSE 'a' END WHERE id = i % 1000;} ],
    [ observe => weight => 100, expressions => q{(SELECT count(*) FROM idem_stats), (SELECT count(*) FROM idem_in_flight()),
        (SELECT count(*) FROM idem_outbox_backlog()), (SELECT count(*) FROM idem_scope_settings), (SELECT count(*) FROM idem_scope_sizes()),
        (SELECT count(*) FROM idem_health()), (SELECT version FROM idem_version()), (SELECT count(*) FROM idem_sweep_progress), idem_stats_reset()} ],
    [ define => weight => 40, kept => 32 * 1024, swings => 1024 * 1024, plpgsql => q{
        PERFORM idem_scope_set('some', ttl => '1 h', max_response_size => i), idem_scope_reset('some', 'ttl', 'owner'), idem_scope_drop('some');
        PERFORM idem_token_rotate_secret(i % 2 = 0);
        PERFORM idem_http_scope_set('some', missing_key_status => 428, stored_headers => '{ETag}', profile => 'ucp'), (SELECT count(*) FROM idem_http_profiles());
        PERFORM idem_api_key_set('some', 'a secret of thirty-two bytes, so'), idem_api_key_drop('some');
        PERFORM idem_webhook_source_set('some', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'), idem_webhook_source_drop('some');
        PERFORM idem_machine_define('some', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
        PERFORM idem_machine_attach('tracked', 'state', 'some', validate => false), idem_machine_validate('tracked', 'state');
        PERFORM count(*) FROM idem_guards;
        INSERT INTO tracked VALUES (-1, 'a');
        UPDATE tracked SET state = 'b' WHERE value = -1;
        DELETE FROM tracked WHERE value = -1;
        PERFORM idem_machine_detach('tracked', 'state'), idem_machine_drop('some');
        PERFORM optimistic_enable('tracked'), optimistic_disable('tracked');
        PERFORM idem_claim('some ' || i, '1 ms'), idem_token_issue();
        PERFORM idem_grant('leak_user', true), idem_revoke('leak_user');} ],
    [ error_null => caught => '22004', q{SELECT idem_claim(NULL)} ],
    [ error_key => caught => '22023', q{SELECT idem_claim(repeat('x', 1025))} ],
    [ error_many => caught => '22004', q{SELECT * FROM idem_claim_many(ARRAY['many error %1$s', NULL])} ],
    [ error_leased => caught => 'ID005', q{SELECT idem_claim('leased')} ],
    [ error_fence => caught => 'ID001', q{SELECT idem_complete('leased', '"x"', 200, 1)} ],
    [ error_absent => caught => 'ID001', q{SELECT idem_renew('absent', 1)} ],
    [ error_execute => caught => '22012', q{SELECT idem_execute('execute error %1$s', 'SELECT 1 / (%1$s - %1$s)')} ],
    [ error_syntax => caught => '42601', q{SELECT idem_execute('execute error %1$s', 'SELEKT')} ],
    [ error_columns => caught => '42701', q{SELECT idem_execute('execute error %1$s', 'SELECT 1 AS a, 2 AS a')} ],
    [ error_after_claim => caught => '22012', q{SELECT idem_claim('after %1$s'), idem_hit('after %1$s'), 1 / (%1$s - %1$s)} ],
    [ error_key_type => caught => '42804', q{SELECT idem_key('a', point '(1, 1)')} ],
    [ error_token => caught => '22023', q{SELECT idem_token_issue(ttl => '8 days')} ],
    [ error_id => caught => '22023', q{SELECT idem_id_parts(-1)} ],
    [ error_lock => caught => 'ID001', q{SELECT idem_assert_fence('held', 1)} ],
    [ error_unique_key => caught => '42P10',
        q{SELECT conditional_update('stock', '{"note": "x"}', '{"amount": 1}', '{"note": "y"}')} ],
    [ error_column => caught => '42703', q{SELECT unique_insert('stock', '{"id": 1, "absent": 2}')} ],
    [ error_value => caught => '22P02',
        q{SELECT conditional_update('stock', '{"id": 1}', '{"amount": 1}', '{"amount": "x"}')} ],
    [ error_version => caught => 'ID004', q{UPDATE stock SET version = version + 7 WHERE id = 1} ],
    [ error_transition => caught => 'ID003', q{SELECT idem_check_transition('order', 'c', 'b')} ],
    [ error_state => kept => 40, caught => 'ID003', q{UPDATE orders SET state = 'c' WHERE id = 0} ],
    [ error_moved => caught => 'ID003', q{UPDATE moving SET region = 1 - region, state = 'x' WHERE id = 0} ],
    [ error_machine => caught => '22023',
        q{SELECT idem_machine_define('bad', '{"initial": ["a"], "transitions": {"b": ["a", "a"]}}')} ],
    [ error_scope => caught => '22023', q{SELECT idem_scope_set('bad', on_lease_expiry => 'never')} ],
);

# --- Setting up -------------------------------------------------------------------------------------------------------------

my $setup = <<'SQL';
CREATE ROLE leak_user;
SELECT idem_ring_create('ring', '1 h', 3), idem_ring_create('dropped', '1 h', 3), idem_ring_drop('dropped'), idem_scope_set('ringed', ring => 'ring');
SELECT idem_claim('sealed', scope => 'ringed');
UPDATE idem_ring_1 SET opened_at = '2000-01-01' WHERE state = 'open';
CREATE TABLE stock (id int PRIMARY KEY, amount int NOT NULL DEFAULT 10, note text);
INSERT INTO stock SELECT generate_series(0, 1000);
SELECT optimistic_enable('stock');
CREATE TABLE plain (value int);
CREATE INDEX ON plain (value);
CREATE TABLE tracked (value int, state text);
CREATE TABLE orders (id int PRIMARY KEY, state text);
SELECT idem_machine_define('order', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c", "a"], "c": ["a"]}}');
INSERT INTO orders SELECT i, 'a' FROM generate_series(0, 1000) i;
SELECT idem_machine_attach('orders', 'state', 'order', log => true);
CREATE TABLE moving (id int, region int, state text) PARTITION BY LIST (region);
CREATE TABLE moving_0 PARTITION OF moving FOR VALUES IN (0);
CREATE TABLE moving_1 PARTITION OF moving FOR VALUES IN (1);
CREATE INDEX ON moving (id);
INSERT INTO moving SELECT i, 0, 'a' FROM generate_series(0, 1000) i;
SELECT idem_machine_attach('moving', 'state', 'order');
SELECT idem_scope_set('manual', on_lease_expiry => 'manual'), idem_http_scope_set('api', profile => 'acp');
SELECT idem_claim('done'), idem_complete('done', '"x"', 200);
SELECT idem_begin('large', ttl => '1 day'),
       idem_complete('large', (SELECT jsonb_agg(md5(i::text)) FROM generate_series(1, 500) i), 200);
SELECT idem_execute('executed', 'SELECT 1 AS one', ttl => '1 day');
SELECT idem_begin('leased', lease => '1 day');
SELECT idem_lock('held', '1 day');
SELECT idem_consume('me', 'seen', '1 day');
SELECT idem_allow('closed', 1e-6, 1);
SELECT idem_api_key_set('sender', 'a secret of thirty-two bytes, so');
SELECT idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody');

-- The bytes in use, of each context that outlives transactions and statements, or of all of them.
CREATE FUNCTION bytes_in_use(everything boolean DEFAULT false, OUT place text, OUT bytes bigint) RETURNS SETOF record
LANGUAGE sql AS $$
    SELECT concat_ws('/', parent, name, CASE WHEN everything THEN NULL ELSE left(ident, 60) END), sum(used_bytes)::bigint
      FROM (SELECT c.*, first_value(name) OVER (PARTITION BY family ORDER BY n) AS first
              FROM (SELECT c.*, count(*) FILTER (WHERE level <= 1) OVER (ORDER BY n) AS family
                      FROM pg_get_backend_memory_contexts() WITH ORDINALITY
                           AS c (name, ident, parent, level, total_bytes, total_nblocks, free_bytes, free_chunks, used_bytes, n)) c) c
     WHERE everything OR first NOT IN ('MessageContext', 'TopPortalContext', 'TopTransactionContext', 'ErrorContext')
     GROUP BY 1
$$;
CREATE FUNCTION resident() RETURNS int LANGUAGE sql AS
    $$ SELECT substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\s*(\d+)')::int $$;

CREATE UNLOGGED TABLE earlier (place text, bytes bigint);
CREATE UNLOGGED TABLE size_earlier (bytes bigint, resident int);
CREATE PROCEDURE remember() LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM earlier;
    DELETE FROM size_earlier;
    INSERT INTO earlier SELECT * FROM bytes_in_use();
    INSERT INTO size_earlier SELECT (SELECT sum(bytes) FROM bytes_in_use()), resident();
END $$;
CREATE FUNCTION growth(OUT bytes bigint, OUT resident int, OUT places text) LANGUAGE sql AS $$
    SELECT sum(n.bytes) - min(s.bytes), resident() - min(s.resident),
           string_agg(place || ' ' || n.bytes - coalesce(e.bytes, 0), ', ') FILTER (WHERE n.bytes > coalesce(e.bytes, 0) + 1000)
      FROM bytes_in_use() n LEFT JOIN earlier e USING (place), size_earlier s
$$;

-- Called in the middle and at the end of a statement with many calls.
CREATE FUNCTION note(name text) RETURNS void LANGUAGE sql AS
    $$ SELECT set_config('leaks.' || name, sum(bytes)::text, false) FROM bytes_in_use(true) $$;

CREATE FUNCTION caught(statement text, state text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RAISE EXCEPTION 'no error: %', statement USING ERRCODE = 'P0004';
EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE <> state THEN RAISE; END IF;
END $$;
SQL

my $script = "\\set QUIET on\n\\pset format unaligned\n\\pset tuples_only on\nSET client_min_messages = warning;\n";
my $remember = "CALL remember();\nSELECT FROM growth();\n" x 2 . "CALL remember();\n";
my (%kept, %swings, %number_of);

foreach my $case (@cases)
{
    my ($name, @rest) = @$case;
    next unless $name =~ /$only/;
    my $statement = @rest % 2 ? pop @rest : undef;
    my %what = @rest;
    $what{expressions} = "caught(format(\$_\$$statement\$_\$, i), '$what{caught}')" if defined $statement;
    # A call that leaves anything leaves 16 bytes or more. A block of memory that is asked for once is not the calls'.
    $kept{$name} = $what{kept} // 10 + 64 * ($what{changes} // 0);
    $swings{$name} = $what{swings} // 0;
    my $n = $number_of{$name} = max(20, int($calls / ($what{weight} // 1)));
    my $body = $what{plpgsql} // "PERFORM $what{expressions};";
    my $expression = $what{plpgsql} ? "do_$name(i)" : "ROW($what{expressions})";
    $setup .= <<"SQL";
CREATE FUNCTION do_$name(i int) RETURNS void LANGUAGE plpgsql AS \$do\$
DECLARE t idem_ticket; token text; fence bigint;
BEGIN $body END \$do\$;
CREATE PROCEDURE each_$name(first int, last int) LANGUAGE plpgsql AS \$do\$
BEGIN
    FOR i IN first .. last LOOP
        PERFORM do_$name(i);
        IF i % 4 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END \$do\$;
SQL
    # Long enough to fill every cache.
    my $warm = int($n / 10) + ($what{weight} ? 20 : 200);
    my $half = int($n / 2);
    my $all_at_once = sub {
        my ($from, $count) = @_;
        my ($first, $middle, $last) = ($from + 1, $from + int($count / 2), $from + $count);
        # Two statements: what is alone in its transaction may be undone.
        return "SELECT 1 \\; SELECT count(CASE WHEN i IN ($first, $middle, $last) THEN note(CASE i WHEN $last THEN 'last' ELSE 'middle' END) END),"
          . " count($expression) FROM generate_series($first, $last) i \\g /dev/null\n";
    };
    $script .= "CALL each_$name(1, $warm);\n" . $all_at_once->(3 * $n, $warm) . "CALL idem_sweep();\n";
    $script .= $remember . "CALL each_$name($warm + 1, $warm + $n);\nSELECT '$name each', * FROM growth();\nCALL remember();\n";
    $script .= $all_at_once->(4 * $n, $n);
    $script .= "SELECT '$name at once', *, (current_setting('leaks.last')::bigint - current_setting('leaks.middle')::bigint) / $half.0"
      . " FROM growth();\nCALL idem_sweep();\nTRUNCATE idem_transition_log;\n";
}

# Sweeping cannot be called inside a function.
if ('sweep' =~ /$only/)
{
    my $n = $number_of{sweep} = int($calls / 40) + 20;
    my $sweep = "SELECT count(idem_claim('sweep ' || i, '1 us')) FROM generate_series(1, 20) i \\g /dev/null\nCALL idem_sweep(7);\n";
    $script .= $sweep x 20 . $remember . $sweep x $n . "SELECT 'sweep each', * FROM growth();\n";
}

# --- Running ----------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', $setup);
my ($stdout, $stderr);
my $started = time;
my $status = $node->psql('postgres', $script, stdout => \$stdout, stderr => \$stderr, on_error_stop => 1);
is($status, 0, 'the calls end as they should') or diag($stderr);

my $measured = 0;
foreach my $line (split /\n/, $stdout)
{
    my ($name, $form, $bytes, $resident, $places, $kept) =
      $line =~ /^(\w+) (each|at once)\|(-?\d+)\|(-?\d+)\|([^|]*)(?:\|(-?[\d.]+))?$/ or next;
    $measured++;
    note(sprintf '%-16s %-8s %8d calls %8d bytes %6d kB%s', $name, $form, $number_of{$name}, $bytes, $resident,
        defined $kept ? sprintf(' %8.2f bytes kept by a call', $kept) : '');
    cmp_ok($bytes, '<', $max_bytes + ($swings{$name} // 0), "$name, $form: memory contexts do not grow")
      or diag("grown: $places");
    cmp_ok($resident, '<', $max_resident{$form}, "$name, $form: nor does the process");
    cmp_ok($kept, '<=', $kept{$name}, "$name: nor its transaction") if defined $kept;
}
is($measured, 2 * keys(%number_of) - exists $number_of{sweep}, 'each case was measured');
note(sprintf '%d s', time - $started);

# --- Nothing is left out ----------------------------------------------------------------------------------------------------

# Called by what is called above.
my %called = map { $_ => 1 } qw(idem_definitions_changed idem_filter_handler idem_health_library idem_members idem_objects idem_ring_adopt idem_ring_check idem_ring_filters
    idem_ring_row_arrived idem_ring_windows idem_scope_rings
    idem_outbox_dead_letters idem_ring_rebuild_filter idem_set_privileges idem_state_guard idem_stats_counters idem_sweep_status idem_unintended_privileges idem_version_guard);
my @functions = split /\n/, $node->safe_psql('postgres', q{
    SELECT DISTINCT proname FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
     WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem')});
is_deeply([ grep { my $function = $_; !$called{$function} && !grep { /\b$function\b/ } $setup . $script } sort @functions ],
    [], 'every function is called') unless $only;

$node->stop;
done_testing();
