# Every public function of idem, called at least once on data that is there already. Each call is a list of statements, the
# last of which returns one text; what the others do is its preparation. A call is undone when its answer is known, so calls
# depend neither on each other nor on their order.
package IdemCalls;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(install_calls uncalled_functions);

# name, the objects of idem without which it cannot answer, statements.
my @calls;

sub calls_of
{
    my ($needs, @more) = @_;
    while (my ($name, $statements) = splice(@more, 0, 2))
    {
        $statements = [$statements] unless ref $statements;
        my $more = join('', @$statements) =~ /idem_lookup/ ? ' idem_key_info' : '';
        push @calls, [ $name, "$needs$more", $statements ];
    }
}

my $keys = 'idem_keys idem_scopes idem_scope_places';
my $leases = "$keys idem_fence_high_water";
my $locks = 'idem_locks idem_scopes idem_fence_high_water';
my $tokens = 'idem_tokens idem_token_secrets idem_scopes';
my $outbox = 'idem_outbox idem_outbox_leases idem_outbox_parked idem_fence_high_water';
my $parked = 'idem_outbox idem_outbox_parked';

calls_of('',
    'key' => q{SELECT idem_key('a', 1)},
    'fingerprint' => q{SELECT idem_fingerprint('{"a": 1}')::text},
    'fingerprint of text' => q{SELECT idem_fingerprint_text('a')::text},
    'fingerprint of bytes' => q{SELECT idem_fingerprint_bytes('a')::text},
    'key of a header' => q{SELECT idem_http_key('"a"')},
    'profiles of HTTP' => q{SELECT string_agg(p::text, ' ') FROM idem_http_profiles() p},
    'version' => q{SELECT idem_version()::text},
    'message of a request' => q{SELECT idem_request_message('{"a": 1}', 'shop', '2026-01-02 03:04:05+00', 'n')},
    'parts of an id' => q{SELECT (idem_id_parts(382721854126686208))::text},
    'UUID' => q{SELECT length(idem_uuid_v7()::text)::text},
    'grant' => [ q{SELECT idem_grant(to_regrole('idem_newcomer'))}, q{SELECT has_function_privilege('idem_newcomer', 'idem.idem_claim(pg_catalog.text,pg_catalog.interval,pg_catalog.text)', 'EXECUTE')::text} ],
    'revoke' => [ q{SELECT idem_revoke(to_regrole('idem_app'))}, q{SELECT has_function_privilege('idem_app', 'idem.idem_claim(pg_catalog.text,pg_catalog.interval,pg_catalog.text)', 'EXECUTE')::text} ]);

calls_of('idem_id_high_water', 'id' => q{SELECT (idem_next_id() < idem_next_id())::text});

calls_of($keys,
    'claim' => q{SELECT idem_claim('new')::text},
    'claim of a duplicate' => q{SELECT idem_claim('done')::text},
    'claim of an expired key' => q{SELECT idem_claim('expired')::text},
    'claim of a leased key' => q{SELECT idem_claim('leased')::text},
    'claim in a scope' => q{SELECT idem_claim('done', scope => 'manual')::text},
    'two claims' => [ q{SELECT idem_claim('new')}, q{SELECT idem_claim('new')::text} ],
    'must claim' => q{SELECT idem_must_claim('new')::text},
    'must claim a duplicate' => q{SELECT idem_must_claim('done')::text},
    'claim of many' => q{SELECT string_agg(k, ',') FROM idem_claim_many('{done,a,b,a,expired}') k},
    'consume' => q{SELECT (idem_consume('reader', '1')::text, idem_consume('reader', '2')::text)::text},
    'lookup' => q{SELECT (state, status_code, response, response_omitted, attempt, steps)::text FROM idem_lookup('done')},
    'lookup of a leased key' => q{SELECT (state, attempt, steps, lease_until > clock_timestamp())::text FROM idem_lookup('leased')},
    'owner of a leased key' => q{SELECT (idem_is_owner('leased', 'me'), idem_is_owner('leased', 'you'))::text},
    'lookup of no key' => q{SELECT count(*)::text FROM idem_lookup('none')},
    'redact' => [ q{SELECT (idem_redact('done'), idem_redact('done'))::text}, q{SELECT (status_code, response, response_omitted)::text FROM idem_lookup('done')} ],
    'forget' => [ q{SELECT idem_forget('done')}, q{SELECT idem_claim('done')::text} ]);

calls_of("$keys idem_outcome",
    'try' => q{SELECT idem_try_claim('new')::text},
    'try a duplicate' => q{SELECT idem_try_claim('done')::text},
    'try a leased key' => q{SELECT idem_try_claim('leased')::text});

calls_of("$keys idem_outcome idem_ticket",
    'begin' => q{SELECT (outcome, attempt, status_code, response, response_omitted, steps)::text FROM idem_begin('new')},
    'begin a duplicate' => q{SELECT (outcome, attempt, status_code, response, response_omitted, steps)::text FROM idem_begin('done', idem_fingerprint('1'))},
    'begin another request' => q{SELECT (outcome, attempt, status_code, response, response_omitted, steps)::text FROM idem_begin('done', idem_fingerprint('2'))},
    'begin a leased key' => q{SELECT (outcome, attempt, retry_after_ms > 0, steps)::text FROM idem_begin('leased')},
    'begin a key in doubt' => q{SELECT (outcome)::text FROM idem_begin('doubt', scope => 'manual')},
    'complete' => [ q{SELECT * FROM idem_begin('new')}, q{SELECT idem_complete('new', '{"r": 2}', 201)}, q{SELECT (response, status_code)::text FROM idem_begin('new')} ],
    'execute' => q{SELECT (outcome, response)::text FROM idem_execute('new', 'SELECT $1 AS n', '[42]')},
    'execute a duplicate' => q{SELECT (outcome, status_code, response)::text FROM idem_execute('done', 'SELECT 1/0')});

calls_of("$leases idem_outcome idem_ticket",
    'begin with a lease' => q{SELECT (outcome, fence > battery.fence('leased'), attempt, lease_until > clock_timestamp())::text FROM idem_begin('new', lease => '1 min')},
    'begin a released key' => q{SELECT (outcome, fence > battery.fence('leased'), attempt)::text FROM idem_begin('released', lease => '1 min')},
    'begin a lapsed key' => q{SELECT (outcome, fence > battery.fence('lapsed'), attempt, steps)::text FROM idem_begin('lapsed', lease => '1 min')},
    'begin again as its owner' => q{SELECT (outcome, fence = battery.fence('leased'), attempt)::text FROM idem_begin('leased', owner => 'me', lease => '1 min')});

calls_of($keys,
    'renew' => q{SELECT (idem_renew('leased', battery.fence('leased'), '2 h') > clock_timestamp() + interval '1 h')::text},
    'renew with a stale fence' => q{SELECT idem_renew('leased', battery.fence('leased') - 1)::text},
    'step' => [ q{SELECT idem_step('leased', battery.fence('leased'), 'charged', '{"id": 7}')}, q{SELECT steps::text FROM idem_lookup('leased')} ],
    'complete with a fence' => [ q{SELECT idem_complete('leased', '{"r": 3}', 200, battery.fence('leased'))}, q{SELECT (state, response)::text FROM idem_lookup('leased')} ],
    'complete with a stale fence' => q{SELECT idem_complete('leased', '{"r": 3}', 200, battery.fence('leased') - 1)::text},
    'release' => [ q{SELECT idem_release('leased', battery.fence('leased'))}, q{SELECT state FROM idem_lookup('leased')} ],
    'claim and release' => [ q{SELECT idem_claim('given back'), idem_release('given back')}, q{SELECT count(*) FROM idem_lookup('given back')} ],
    'claim a released key, and release' => [ q{SELECT idem_claim('released'), idem_release('released')}, q{SELECT state FROM idem_lookup('released')} ]);

calls_of("$keys idem_ring_registry",
    'keys in flight' => q{SELECT string_agg(key || ' ' || mode, ',' ORDER BY key) FROM idem_in_flight()},
    'claim in a ring' => [ q{SELECT idem_ring_create('ring', '1 h', 3)}, q{SELECT idem_scope_set('ringed', ring => 'ring')}, q{SELECT (idem_claim('k', scope => 'ringed'), idem_claim('k', scope => 'ringed'))::text} ],
    'rebuild a filter' => [ q{SELECT idem_ring_create('ring', '1 h', 3)}, q{SELECT idem_ring_rebuild_filter('ring')}, q{SELECT count(*)::text FROM idem_ring_windows()} ],
    'drop a ring' => [ q{SELECT idem_ring_create('ring', '1 h', 3)}, q{SELECT idem_ring_drop('ring')}, q{SELECT count(*)::text FROM idem_ring_windows()} ]);

calls_of('idem_scopes', 'serialize' => q{SELECT idem_serialize('k')::text});

calls_of('idem_counters idem_scopes', 'hits' => q{SELECT hits::text FROM idem_hits('hit')}, 'hit' => q{SELECT (idem_hit('hit', '1 h'), idem_hit('new', '1 h'))::text});

calls_of($locks,
    'lock' => q{SELECT (idem_lock('new') > battery.fence('lock'))::text},
    'lock that is taken' => q{SELECT coalesce(idem_lock('lock')::text, 'busy')},
    'lock that its owner has' => q{SELECT (idem_lock('lock', owner => 'me') = battery.fence('lock'))::text},
    'lock that lapsed' => q{SELECT (idem_lock('lapsed') > battery.fence('lapsed lock'))::text},
    'renew a lock' => q{SELECT idem_lock_renew('lock', battery.fence('lock'))::text},
    'unlock' => q{SELECT idem_unlock('lock', battery.fence('lock'))::text},
    'unlock with a stale fence' => q{SELECT idem_unlock('lock', battery.fence('lock') - 1)::text},
    'assert a fence' => q{SELECT idem_assert_fence('lock', battery.fence('lock'))::text},
    'assert a stale fence' => q{SELECT idem_assert_fence('lock', battery.fence('lock') - 1)::text});

calls_of('idem_token_secrets idem_scopes',
    'issue a token' => q{SELECT (length(idem_token_issue()) > 20)::text},
    'rotate the secret' => q{SELECT idem_token_rotate_secret()::text});

calls_of("$tokens idem_token_outcome",
    'redeem a token' => [ q{SELECT battery.keep(idem_token_issue('me'))}, q{SELECT idem_token_redeem(battery.kept(), 'me')::text} ],
    'redeem a token twice' => [ q{SELECT battery.keep(idem_token_issue())}, q{SELECT idem_token_redeem(battery.kept())}, q{SELECT idem_token_redeem(battery.kept())::text} ],
    'redeem the token of another' => [ q{SELECT battery.keep(idem_token_issue('you'))}, q{SELECT idem_token_redeem(battery.kept(), 'me')::text} ],
    'redeem a revoked token' => [ q{SELECT battery.keep(idem_token_issue())}, q{SELECT idem_token_rotate_secret(revoke => true)}, q{SELECT idem_token_redeem(battery.kept())::text} ]);

calls_of("$keys",
    'set a scope' => [ q{SELECT idem_scope_set('new', ttl => '1 h', max_response_size => 10)}, q{SELECT (idem_claim('k', scope => 'new'))::text || ' ' || (expires_at < clock_timestamp() + interval '2 h')::text FROM idem_lookup('done')} ],
    'reset a scope' => [ q{SELECT (idem_scope_reset('manual', 'on_lease_expiry'), idem_scope_reset('none', 'ttl'))::text}, q{SELECT on_lease_expiry IS NULL FROM idem.idem_scopes WHERE scope = 'manual'} ],
    'drop a scope' => q{SELECT (idem_scope_drop('manual'), idem_scope_drop('none'))::text},
    'set an HTTP scope' => q{SELECT idem_http_scope_set('new', mismatch_status => 409)::text},
    'claim in the scope of another' => q{SELECT idem_claim('k', scope => 'owned')::text});

calls_of("$keys idem_ring_registry idem_scope_settings",
    'settings of a scope' => q{SELECT string_agg(concat_ws(' ', setting, own, effective, source), ',' ORDER BY setting) FROM idem.idem_scope_settings WHERE scope = 'manual'},
    'rings of scopes' => q{SELECT count(*)::text FROM idem_scope_rings()},
    'sizes of scopes' => q{SELECT string_agg(concat_ws(' ', scope, keys), ',' ORDER BY scope) FROM idem_scope_sizes() WHERE scope <> ''});

calls_of('idem_scopes idem_scope_places', 'key of a header in a scope' => q{SELECT idem_http_key('"a"', 'api/client')});

calls_of("$leases idem_http_answer",
    'HTTP begin in a family that compares JSON' => q{SELECT (action, headers)::text FROM idem_http_begin('api/client', 'POST', '/o', 'new', '{"a":1}', content_type => 'application/json')},
    'HTTP begin' => q{SELECT (action, status, headers, body)::text FROM idem_http_begin('web', 'POST', '/o', '"new"', '1')},
    'HTTP begin a duplicate' => q{SELECT (action, status, headers, body)::text FROM idem_http_begin('web', 'POST', '/o', '"http"', '1')},
    'HTTP begin another request' => q{SELECT (action, status, code, body::text::jsonb ->> 'code')::text FROM idem_http_begin('web', 'POST', '/o', '"http"', '2')},
    'HTTP begin without a key' => q{SELECT (action, code)::text FROM idem_http_begin('web', 'GET', '/o', NULL)});

calls_of("$leases idem_http_answer idem_http_stored",
    'HTTP complete' => [ q{SELECT battery.keep(fence::text) FROM idem_http_begin('web', 'POST', '/o', 'new', '1', lease => '1 min')}, q{SELECT idem_http_complete('web', 'new', 200, '{}', '{"r": 5}', NULL, battery.kept()::bigint)}, q{SELECT (action, status, body)::text FROM idem_http_begin('web', 'POST', '/o', 'new', '1')} ],
    'HTTP complete in its transaction' => [ q{SELECT * FROM idem_http_begin('web', 'POST', '/o', 'new', '1')}, q{SELECT idem_http_complete('web', 'new', 200, '{}', '{"r": 5}')}, q{SELECT (action, status, body)::text FROM idem_http_begin('web', 'POST', '/o', 'new', '1')} ]);

calls_of($leases,
    'resolve' => [ q{SELECT idem_resolve('doubt', 'completed', '{"r": 9}', scope => 'manual')}, q{SELECT response::text FROM idem_lookup('doubt', scope => 'manual')} ]);

calls_of('idem_outbox idem_id_high_water',
    'publish' => q{SELECT (idem_publish('topic', '{"m": 9}', 'k') > battery.fence('message'))::text},
    'publish many' => q{SELECT (min(id) > battery.fence('message'))::text || count(*) FROM unnest(idem_publish_many('topic', '[{"payload": 1}, {"payload": 2, "key": "k", "delay": "1 h"}]')) AS id});

calls_of($outbox,
    'take messages' => q{SELECT string_agg((topic, key, payload, headers, attempt)::text, ',' ORDER BY id) FROM idem_outbox_take('topic')},
    'acknowledge' => q{SELECT (idem_outbox_ack(ARRAY[battery.fence('taken')], battery.fence('batch')), idem_outbox_ack(ARRAY[battery.fence('taken')], battery.fence('batch')))::text},
    'acknowledge with a stale fence' => q{SELECT (idem_outbox_ack(ARRAY[battery.fence('taken')], battery.fence('batch') - 1))::text},
    'renew messages' => q{SELECT idem_outbox_renew(ARRAY[battery.fence('taken')], battery.fence('batch'), '1 h')::text},
    'backlog' => q{SELECT string_agg((topic, ready, delayed, leased, parked)::text, ',') FROM idem_outbox_backlog()},
    'give back' => q{SELECT (idem_outbox_nack(ARRAY[battery.fence('taken')], battery.fence('batch'), '1 h'))::text});

calls_of($parked,
    'retry a dead letter' => q{SELECT idem_outbox_retry(ARRAY[battery.fence('parked')])::text},
    'discard a dead letter' => q{SELECT idem_outbox_discard(ARRAY[battery.fence('parked')])::text});

calls_of('idem_outbox_parked idem_dead_letters',
    'dead letters' => q{SELECT string_agg((topic, key, payload, attempts, cause)::text, ',') FROM idem.idem_dead_letters});
calls_of('idem_outbox_parked',
    'dead letters by function' => q{SELECT string_agg((topic, key, payload, attempts, cause)::text, ',') FROM idem_outbox_dead_letters()});

calls_of('idem_api_keys',
    'set a secret' => q{SELECT idem_api_key_set('new', '0123456789abcdef')::text},
    'drop a secret' => q{SELECT (idem_api_key_drop('shop'), idem_api_key_drop('none'))::text});
calls_of("$keys idem_api_keys idem_request_outcome",
    'verify a request' => q{SELECT (SELECT idem_verify_request('{"a": 1}', encode(hmac, 'hex'), 'shop', at, 'n1', '1 day')::text FROM battery.signature)},
    'verify a false request' => q{SELECT (SELECT idem_verify_request('{"a": 2}', encode(hmac, 'hex'), 'shop', at, 'n1', '1 day')::text FROM battery.signature)});
calls_of('idem_webhook_sources',
    'set a source' => q{SELECT idem_webhook_source_set('new', 'slack', '0123456789abcdef')::text},
    'drop a source' => q{SELECT (idem_webhook_source_drop('github'), idem_webhook_source_drop('none'))::text});
# Signed with the secret of GitHub's documentation.
my $signature = '"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"';
calls_of("$keys idem_webhook_sources idem_webhook_outcome idem_webhook_answer",
    'receive a webhook' => qq{SELECT idem_webhook_receive('github', '{$signature, "X-GitHub-Delivery": "new"}', 'Hello, World!')::text},
    'receive a webhook again' => qq{SELECT idem_webhook_receive('github', '{$signature, "X-GitHub-Delivery": "seen"}', 'Hello, World!')::text},
    'receive a false webhook' => qq{SELECT idem_webhook_receive('github', '{$signature}', 'Hello, moon!')::text});
calls_of('idem_rates idem_scopes', 'allow' => q{SELECT (a.allowed, a.remaining, b.allowed)::text FROM idem_allow('new', 0.000001, 3) a, idem_allow('rate', 0.000001, 3, 3) b});

my $machines = 'idem_machines';
my $definition = q{'{"initial": ["new"], "transitions": {"new": ["paid"]}}'};
calls_of($machines,
    'define a machine' => [ qq{SELECT idem_machine_define('m2', $definition)}, q{SELECT (idem_can_transition('m2', 'new', 'paid'), idem_can_transition('m2', 'paid', 'new'))::text} ],
    'define a machine again' => [ q{SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["shipped"]}}')}, q{SELECT idem_can_transition('order', 'created', 'shipped')::text} ],
    'drop a machine' => q{SELECT idem_machine_drop('unused')::text},
    'drop a machine in use' => q{SELECT idem_machine_drop('order')::text},
    'can' => q{SELECT (idem_can_transition('order', 'created', 'paid'), idem_can_transition('order', 'created', 'shipped'))::text},
    'check' => q{SELECT idem_check_transition('order', 'created', 'shipped')::text},
    'dot' => q{SELECT idem_machine_dot('order')},
    'mermaid' => q{SELECT idem_machine_mermaid('order')},
    'attach' => [ q{SELECT idem_machine_attach('bare', 'state', 'order')}, q{UPDATE bare SET state = 'shipped' WHERE id = 1}, q{SELECT 'moved'} ],
    'detach' => [ q{SELECT idem_machine_detach('orders', 'state')}, q{UPDATE orders SET state = 'delivered' WHERE id = 1}, q{SELECT 'moved'} ],
    'transition' => q{SELECT (outcome, state)::text FROM idem_transition('orders', '{"id": 1}', NULL, 'paid')},
    'transition that is not allowed' => q{SELECT (outcome, state)::text FROM idem_transition('orders', '{"id": 1}', NULL, 'shipped')},
    'guarded insertion' => [ q{INSERT INTO orders VALUES (9, 'created')}, q{SELECT 'inserted'} ],
    'guarded insertion in a wrong state' => [ q{INSERT INTO orders VALUES (9, 'paid')}, q{SELECT 'inserted'} ],
    'guarded update' => [ q{UPDATE orders SET state = 'shipped' WHERE id = 1}, q{SELECT 'updated'} ]);
calls_of("$machines idem_guards",
    'attach without a look at the rows' => [ q{SELECT idem_machine_attach('bare', 'state', 'order', validate => false)}, q{SELECT idem_machine_validate('bare', 'state')}, q{SELECT (column_name, machine, is_valid)::text FROM idem.idem_guards WHERE target = 'public.bare'::regclass} ]);
calls_of("$machines idem_transition_log",
    'attach with a log' => [ q{SELECT idem_machine_attach('bare', 'state', 'order', log => true)}, q{UPDATE bare SET state = 'paid' WHERE id = 1}, q{SELECT (target, key, from_state, to_state)::text FROM idem.idem_transition_log WHERE target = 'public.bare'} ],
    'logged transition' => [ q{SELECT * FROM idem_transition('logged', '{"id": 1}', NULL, 'paid')}, q{SELECT string_agg((key, state_column, from_state, to_state, at > '2026-01-01')::text, ',' ORDER BY at) FROM idem.idem_transition_log WHERE target = 'public.logged'} ],
    'logged insertion' => [ q{INSERT INTO logged VALUES (2, 'created')}, q{SELECT count(*)::text FROM idem.idem_transition_log WHERE target = 'public.logged'} ],
    'detach with a log' => q{SELECT idem_machine_detach('logged', 'state')::text});

calls_of('',
    'enable versions' => [ q{SELECT optimistic_enable('bare')}, q{UPDATE bare SET state = 'x'}, q{SELECT to_jsonb(bare) ->> 'version' FROM bare} ],
    'disable versions' => [ q{SELECT optimistic_disable('item')}, q{UPDATE item SET version = 9 WHERE id = 1}, q{SELECT 'updated'} ],
    'guarded version' => [ q{UPDATE item SET version = 9 WHERE id = 1}, q{SELECT 'updated'} ],
    'optimistic update' => q{SELECT (outcome, version, row_data)::text FROM optimistic_update('item', '{"id": 1}', 1, '{"name": "desk"}')},
    'optimistic conflict' => q{SELECT (outcome, version, row_data)::text FROM optimistic_update('item', '{"id": 1}', 2, '{"name": "desk"}')},
    'conditional update' => q{SELECT (outcome, row_data)::text FROM conditional_update('item', '{"id": 1}', '{"name": "lamp"}', '{"name": "desk"}')},
    'conditional adjustment' => q{SELECT (outcome, value)::text FROM conditional_adjust('item', '{"id": 1}', 'quantity', -2)},
    'row lock' => q{SELECT (outcome, row_data)::text FROM pessimistic_lock('item', '{"id": 1}', '0')},
    'row locks' => q{SELECT string_agg((outcome, row_data)::text, ',') FROM pessimistic_lock_many('item', ARRAY['{"id": 2}', '{"id": 1}']::jsonb[])},
    'unique insertion' => q{SELECT (outcome, row_data)::text FROM unique_insert('bare', '{"id": 2, "state": "s"}')},
    'unique duplicate' => q{SELECT (outcome, row_data)::text FROM unique_insert('bare', '{"id": 1, "state": "s"}')},
    'insertion by a lock' => q{SELECT (outcome, row_data)::text FROM guarded_insert('loose', '{"name": "a", "n": 1}', '{name}')});

calls_of('idem_guards', 'guards' => q{SELECT string_agg((relname, kind, column_name, machine, is_enabled, is_valid)::text, ' ' ORDER BY relname) FROM idem.idem_guards JOIN pg_catalog.pg_class c ON c.oid = target});
calls_of('idem_replicated_tables', 'replicated tables' => q{SELECT (count(*) > 10)::text FROM idem.idem_replicated_tables});
calls_of('idem_stats', 'statistics' => q{SELECT coalesce(sum(acquired) >= 0, true)::text FROM idem.idem_stats});
calls_of('',
    'counters of statistics' => q{SELECT (count(*) >= 0)::text FROM idem_stats_counters()},
    'reset of statistics' => q{SELECT idem_stats_reset()::text});
calls_of('idem_sweeps idem_sweep_progress', 'progress of sweeps' => q{SELECT (min(state), count(*) = count(DISTINCT table_name))::text FROM idem.idem_sweep_progress});
calls_of('idem_sweeps', 'status of sweeps' => q{SELECT (min(state), count(*) = count(DISTINCT table_name))::text FROM idem_sweep_status()});
calls_of('*', 'version of the library' => q{SELECT (version IS NOT NULL)::text FROM idem_health_library()});
calls_of('*', 'health' => q{SELECT (count(*) FILTER (WHERE check_name IN ('version', 'tables')))::text FROM idem_health()});

# Called by a CALL of its own, by other functions, and by the events that fire them.
my @called_elsewhere = qw(idem_filter_handler idem_ring_adopt idem_ring_check idem_ring_filters idem_ring_row_arrived idem_ring_windows idem_sweep idem_objects idem_members idem_set_privileges idem_unintended_privileges idem_definitions_changed idem_state_guard idem_version_guard);

# The extension in a schema of its own, data of every kind, and the calls in the schema "battery".
sub install_calls
{
    my ($node, $database) = @_;
    $node->safe_psql($database, <<'SQL');
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
DO $$ BEGIN
    IF to_regrole('idem_app') IS NULL THEN
        CREATE ROLE idem_newcomer;
        CREATE ROLE idem_app;
        CREATE ROLE idem_operator;
        CREATE ROLE idem_stranger;
    END IF;
END $$;
GRANT USAGE ON SCHEMA idem TO PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO idem_operator;
SELECT idem.idem_grant('idem_app'), idem.idem_grant('idem_operator', operator => true);
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, idem', current_database()); END $$;
SQL
    $node->safe_psql($database, <<'SQL');
GRANT SELECT ON idem_transition_log, idem_stats, idem_dead_letters, idem_scope_settings, idem_sweep_progress TO idem_operator;

CREATE SCHEMA battery;
GRANT USAGE ON SCHEMA battery TO PUBLIC;
CREATE TABLE battery.call (seq int GENERATED ALWAYS AS IDENTITY, name text, needs text[], statements text[]);
CREATE TABLE battery.expected (role text, name text, answer text);
CREATE TABLE battery.known (name text, fence bigint);
CREATE TABLE battery.signature (at timestamptz, hmac bytea);
GRANT SELECT ON ALL TABLES IN SCHEMA battery TO PUBLIC;

CREATE FUNCTION battery.fence(text) RETURNS bigint STABLE BEGIN ATOMIC SELECT k.fence FROM battery.known k WHERE k.name = $1; END;
CREATE FUNCTION battery.keep(text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_catalog.set_config('battery.kept', $1, true); END $$;
CREATE FUNCTION battery.kept() RETURNS text VOLATILE BEGIN ATOMIC SELECT pg_catalog.current_setting('battery.kept'); END;

-- What each call answers: its text, or the SQLSTATE of its error. A lock that is not there soon counts as a hang.
CREATE FUNCTION battery.observe(OUT name text, OUT answer text) RETURNS SETOF record LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c record;
    last int;
    observed text;
    state text;
    message text;
BEGIN
    PERFORM pg_catalog.set_config('lock_timeout', coalesce(pg_catalog.current_setting('battery.wait_limit', true), '300'), true);
    FOR c IN SELECT * FROM battery.call ORDER BY seq LOOP
        observed := NULL;
        BEGIN
            last := pg_catalog.array_length(c.statements, 1);
            FOR i IN 1 .. last - 1 LOOP
                EXECUTE c.statements[i];
            END LOOP;
            EXECUTE c.statements[last] INTO observed;
            RAISE SQLSTATE 'HX000';
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
            IF state <> 'HX000' THEN
                observed := 'error ' || state || ': ' || message;
            END IF;
        END;
        name := c.name;
        answer := coalesce(observed, 'NULL');
        RETURN NEXT;
    END LOOP;
END $$;

-- Answers that are not those of an unaltered database. A call that needs the altered object may raise one of the errors.
CREATE FUNCTION battery.deviations(altered text, role text, errors text, OUT name text, OUT expected text, OUT answer text) RETURNS SETOF record LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    o record;
    c record;
    e text;
    is_refused boolean := false;
    is_well boolean;
BEGIN
    FOR o IN SELECT * FROM battery.observe() LOOP
        SELECT * INTO c FROM battery.call WHERE name = o.name;
        SELECT x.answer INTO e FROM battery.expected x WHERE x.name = o.name AND x.role = $2;
        CONTINUE WHEN o.answer = e OR o.answer ~ '^error' AND pg_catalog.left(o.answer, 11) = pg_catalog.left(e, 11);
        is_refused := is_refused OR o.answer ~ '^error 55000';
        CONTINUE WHEN o.answer ~ ('^error (' || errors || ')') AND c.needs && ARRAY[altered, '*'];
        name := o.name;
        expected := e;
        answer := o.answer;
        RETURN NEXT;
    END LOOP;
    IF is_refused THEN
        SELECT level = 'ok' INTO is_well FROM idem_health() WHERE check_name = 'tables';
        IF is_well THEN
            name := 'health';
            expected := 'tables not ok, as functions raise 55000';
            answer := 'ok';
            RETURN NEXT;
        END IF;
    END IF;
EXCEPTION WHEN OTHERS THEN
    name := 'health';
    expected := 'an answer';
    answer := 'error ' || SQLSTATE || ': ' || SQLERRM;
    RETURN NEXT;
END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA battery TO PUBLIC;

-- The users' tables.
CREATE TABLE orders (id int PRIMARY KEY, state text NOT NULL);
CREATE TABLE logged (id int PRIMARY KEY, state text NOT NULL);
CREATE TABLE bare (id int PRIMARY KEY, state text NOT NULL);
CREATE TABLE item (id int PRIMARY KEY, name text, quantity int);
CREATE TABLE loose (name text, n int);
CREATE INDEX ON loose (name);
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"]}}');
SELECT idem_machine_define('unused', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT idem_machine_attach('orders', 'state', 'order'), idem_machine_attach('logged', 'state', 'order', log => true);
INSERT INTO orders VALUES (1, 'created');
INSERT INTO logged VALUES (1, 'created');
INSERT INTO bare VALUES (1, 'created');
INSERT INTO item VALUES (1, 'lamp', 2), (2, 'chair', 5);
SELECT optimistic_enable('item');
ALTER TABLE orders OWNER TO idem_operator;
ALTER TABLE logged OWNER TO idem_operator;
ALTER TABLE bare OWNER TO idem_operator;
ALTER TABLE item OWNER TO idem_operator;
ALTER TABLE loose OWNER TO idem_operator;

-- idem's rows.
BEGIN;
SELECT outcome FROM idem_begin('done', idem_fingerprint('1'));
SELECT idem_complete('done', '{"r": 1}', 201);
SELECT idem_claim('expired', ttl => '1 ms');
SELECT idem_scope_set('manual', on_lease_expiry => 'manual'), idem_scope_set('owned', owner => 'idem_stranger');
SELECT idem_claim('done', scope => 'manual');
SELECT idem_consume('reader', '1');
SELECT idem_hit('hit', '1 day');
SELECT idem_api_key_set('shop', '0123456789abcdef0123456789abcdef');
SELECT idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody');
SELECT idem_webhook_receive('github', '{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "X-GitHub-Delivery": "seen"}', 'Hello, World!');
SELECT idem_http_scope_set('api', compare => 'json', echo_key => true);
SELECT action FROM idem_http_begin('web', 'POST', '/o', 'http', '1');
SELECT idem_http_complete('web', 'http', 201, '{"Location": "/o/1"}', '{"r": 4}');
SELECT allowed FROM idem_allow('rate', 0.000001, 3);
INSERT INTO battery.known SELECT 'leased', fence FROM idem_begin('leased', lease => '20 h', owner => 'me');
SELECT idem_step('leased', battery.fence('leased'), 'reserved');
INSERT INTO battery.known SELECT 'released', fence FROM idem_begin('released', lease => '20 h');
SELECT idem_release('released', battery.fence('released'));
INSERT INTO battery.known SELECT 'lapsed', fence FROM idem_begin('lapsed', lease => '1 ms');
INSERT INTO battery.known SELECT 'doubt', fence FROM idem_begin('doubt', lease => '1 ms', scope => 'manual');
INSERT INTO battery.known SELECT 'lock', idem_lock('lock', lease => '20 h', owner => 'me');
INSERT INTO battery.known SELECT 'lapsed lock', idem_lock('lapsed', lease => '1 ms');
SELECT idem_publish('dead', '{"m": 0}');
COMMIT;
SET idem.outbox_max_attempts = 1;
INSERT INTO battery.known SELECT 'parked', idem_outbox_nack(array_agg(id), min(fence), '0') * min(id) FROM idem_outbox_take('dead');
RESET idem.outbox_max_attempts;
INSERT INTO battery.known SELECT 'taken', idem_publish('taken', '{"m": 1}');
INSERT INTO battery.known SELECT 'batch', fence FROM idem_outbox_take('taken', 10, '20 h');
INSERT INTO battery.known SELECT 'message', idem_publish('topic', '{"m": 2}', 'k', '{"h": 1}');
SELECT idem_publish('topic', '{"m": 3}', 'k'), idem_publish('topic', '{"m": 4}');
SELECT outcome FROM idem_begin('doubt', scope => 'manual');
SELECT idem_token_redeem(idem_token_issue());
CREATE EXTENSION IF NOT EXISTS pgcrypto SCHEMA battery;
INSERT INTO battery.signature SELECT now(), battery.hmac(convert_to(idem_request_message('{"a": 1}', 'shop', now(), 'n1'), 'UTF8'), '0123456789abcdef0123456789abcdef', 'sha256');
SQL
    $node->safe_psql($database, 'CALL idem_sweep()');
    $node->safe_psql($database, q{SELECT idem_claim('expired', ttl => '1 ms')});

    my $script = "TRUNCATE battery.call;\n";
    for my $call (@calls)
    {
        my ($name, $needs, $statements) = @$call;
        my $list = join(', ', map { "\$_\$$_\$_\$" } @$statements);
        $script .= "INSERT INTO battery.call (name, needs, statements) VALUES (\$_\$$name\$_\$, string_to_array('$needs', ' '), ARRAY[$list]);\n";
    }
    for my $role ('postgres', 'idem_operator')
    {
        # The first run makes what is made once, as the first secret of tokens.
        $script .= "SET ROLE $role; SELECT count(*) FROM battery.observe();";
        $script .= "BEGIN; CREATE TEMP TABLE answers ON COMMIT DROP AS SELECT * FROM battery.observe(); RESET ROLE;"
            . "INSERT INTO battery.expected SELECT '$role', * FROM answers; COMMIT;\n";
    }
    $node->safe_psql($database, $script);
}

sub uncalled_functions
{
    my ($node, $database) = @_;
    my $text = join("\n", map { @{ $_->[2] } } @calls);
    my @functions = split /\n/, $node->safe_psql($database, <<'SQL');
SELECT DISTINCT proname FROM pg_depend JOIN pg_proc ON pg_proc.oid = objid
WHERE classid = 'pg_proc'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem')
SQL
    my %elsewhere = map { $_ => 1 } @called_elsewhere;
    return grep { my $name = $_; $text !~ /\b$name\(/ && !$elsewhere{$name} } @functions;
}

1;
