# Faults in the midst of a call: no memory, no room on the disk, no room in the lock table, more subtransactions than a snapshot has room
# for. Each is a clean error, leaves nothing half-written and nothing locked, and the session goes on. IDEM_FAULTS=all: every allocation of
# every function (up to 1500) in a session that has made its caches, and many in a new one; otherwise a sample of them.

use strict;
use warnings;

use IPC::Run;
use IdemCluster;
use IdemFaults;
use IdemLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $faults = build_faults();
plan skip_all => 'needs a C compiler and the server\'s headers' unless $faults;
my $all = ($ENV{IDEM_FAULTS} // '') eq 'all';
my $seed = srand($ENV{IDEM_SEED} // time);
note("IDEM_SEED=$seed");

my $node = PostgreSQL::Test::Cluster->new('faults');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', <<'CONF');
restart_after_crash = off
shared_preload_libraries = 'idem'
autovacuum = off
log_statement = none
log_min_messages = warning
log_min_error_statement = panic
max_locks_per_transaction = 10
max_connections = 20
CONF
{
    local $ENV{LD_PRELOAD} = $faults->{library};
    $node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION idem; CREATE EXTENSION amcheck;' . $faults->{sql});
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE item (id int PRIMARY KEY, name text, stock int NOT NULL DEFAULT 1000000, state text NOT NULL DEFAULT 'new');
INSERT INTO item (id) SELECT generate_series(0, 9);
SELECT optimistic_enable('item');
CREATE TABLE loose (id bigint, name text);
CREATE INDEX ON loose (id);
CREATE TABLE once (id bigint PRIMARY KEY, name text);
CREATE TABLE plain (id int PRIMARY KEY, state text NOT NULL DEFAULT 'new', version bigint NOT NULL DEFAULT 1);
SELECT idem_machine_define('m', '{"initial": ["new"], "transitions": {"new": ["old"], "old": ["new"]}}');
SELECT idem_machine_attach('item', 'state', 'm', true);
SELECT idem_scope_set('scope', '1 h'), idem_scope_set('manual', on_lease_expiry => 'manual');
CREATE SEQUENCE serial;
-- What a call needs to be there before.
CREATE FUNCTION leased(key text) RETURNS bigint LANGUAGE sql AS $$ SELECT fence FROM idem_begin(key, lease => '1 h') $$;
SQL

sub is_sound
{
    my ($name) = @_;
    is( sqlstate(
            $node,
            q{SET statement_timeout = '60s'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) idem_keys, idem_tokens, idem_locks, idem_rates, idem_counters, idem_outbox; CHECKPOINT;
              SELECT idem_next_id(), idem_claim('sound ' || nextval('serial')), idem_lock('sound ' || nextval('serial'))}),
        '00000', "$name: no page is pinned, and nothing locked");
    is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()}), '0', "$name: no lock is left");
    has_clean_relations($node, $name);
    return;
}

# --- Memory -------------------------------------------------------------------------------------------------------------------

# `call`, with a name of its own for :k, a number for :n. `given`, before it: sets what else it names. `trace`: counts what the calls that
# succeeded have left, one for each.
my @calls = (
    [ 'idem_claim', '', q{SELECT idem_claim(:'k')}, q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_claim of a duplicate', q{SELECT idem_claim('done') \g /dev/null}, q{SELECT idem_claim('done')} ],
    [ 'idem_try_claim', '', q{SELECT idem_try_claim(:'k')}, q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_claim_many', '', q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT :'k' || '.' || n FROM generate_series(1, 20) AS n))},
        q{SELECT count(*) / 20.0 FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_begin, transactional', '', q{SELECT outcome FROM idem_begin(:'k', idem_fingerprint('{"a": 1}'), wait => '10 min')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_begin, leased', '', q{SELECT outcome FROM idem_begin(:'k', lease => '1 d', owner => 'me')}, q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_begin, takeover', q{SELECT idem_begin(:'k', lease => '1 us') \g /dev/null}, q{SELECT outcome FROM idem_begin(:'k', lease => '1 d')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND attempt = 2} ],
    [ 'idem_begin, waits for a lease', q{SELECT idem_begin(:'k', lease => '1 d') \g /dev/null}, q{SELECT outcome FROM idem_begin(:'k', wait => '1 ms')} ],
    [ 'idem_step', q{SELECT leased(:'k') AS fence \gset}, q{SELECT idem_step(:'k', :fence, 'half')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND steps ? 'half'} ],
    [ 'idem_renew', q{SELECT leased(:'k') AS fence \gset}, q{SELECT idem_renew(:'k', :fence, '1 d')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND lease_until > now() + interval '20 h'} ],
    [ 'idem_complete', q{SELECT leased(:'k') AS fence \gset}, q{SELECT idem_complete(:'k', '{"a": 1}', 200, :fence)},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND state = 'c'} ],
    [ 'idem_complete, a large response', q{SELECT leased(:'k') AS fence, jsonb_agg(md5(n::text)) AS large FROM generate_series(1, 300) AS n \gset},
        q{SELECT idem_complete(:'k', :'large', 200, :fence)}, q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND state = 'c'} ],
    [ 'idem_release', q{SELECT leased(:'k') AS fence \gset}, q{SELECT idem_release(:'k', :fence)},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND state = 'r'} ],
    [ 'idem_lookup', q{SELECT idem_claim('done') \g /dev/null}, q{SELECT state FROM idem_lookup('done')} ],
    [ 'idem_execute', '', q{SELECT outcome FROM idem_execute(:'k', 'SELECT $1 AS one, 2 AS two', '["1"]')}, q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p'} ],
    [ 'idem_hit', '', q{SELECT idem_hit(:'k')}, q{SELECT count(*) FROM idem_counters WHERE key LIKE :'p'} ],
    [ 'idem_serialize', '', q{SELECT 1 \; SELECT idem_serialize(:'k')} ],
    [ 'idem_consume', '', q{SELECT idem_consume('me', :'k')}, q{SELECT count(*) FROM idem_keys WHERE scope = 'inbox' AND key LIKE 'me:' || :'p'} ],
    [ 'idem_http_begin', '', q{SELECT action FROM idem_http_begin('web', 'POST', '/', '"' || replace(:'k', ' ', '-') || '"', '\x01')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE replace(:'p', ' ', '-')} ],
    [ 'idem_http_begin, replayed', q{SELECT idem_http_complete('web', 'replayed', 201, '{"Location": "/"}', '{"a": 1}') FROM idem_http_begin('web', 'POST', '/', 'replayed') WHERE action = 'run' \g /dev/null},
        q{SELECT action FROM idem_http_begin('web', 'POST', '/', 'replayed')} ],
    [ 'idem_http_begin, rejected', '', q{SELECT action FROM idem_http_begin('web', 'POST', '/', NULL)} ],
    [ 'idem_http_complete', q{SELECT fence, replace(:'k', ' ', '-') AS key FROM idem_http_begin('web', 'POST', '/', replace(:'k', ' ', '-'), lease => '1 d') \gset},
        q{SELECT idem_http_complete('web', :'key', 201, '{"Location": "/", "Link": ["a", "b"]}', '{"a": 1}', NULL, :fence)},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE replace(:'p', ' ', '-') AND state = 'c'} ],
    [ 'idem_allow', '', q{SELECT allowed FROM idem_allow(:'k', 1e-3, 5)}, q{SELECT count(*) FROM idem_rates WHERE key LIKE :'p'} ],
    [ 'idem_verify_request', q{SELECT idem_api_key_set('sender', 'a secret of thirty-two bytes, so') \g /dev/null},
        q{SELECT idem_verify_request('{"b": [1, {"d": "e"}], "a": 2.50}', repeat('0', 64), 'sender', clock_timestamp(), :'k')} ],
    [ 'idem_api_key_set', '', q{SELECT idem_api_key_set(:'k', 'a secret of thirty-two bytes, so')}, q{SELECT count(*) FROM idem_api_keys WHERE key_id LIKE :'p'} ],
    [ 'idem_webhook_receive', q{SELECT idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody') \g /dev/null},
        q{SELECT outcome FROM idem_webhook_receive('github', jsonb_build_object('X-GitHub-Delivery', ARRAY[:'k'],
            'X-Hub-Signature-256', 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'), 'Hello, World!')},
        q{SELECT count(*) FROM idem_keys WHERE scope = 'webhook' AND key LIKE 'github:' || :'p'} ],
    [ 'idem_webhook_source_set', '', q{SELECT idem_webhook_source_set(:'k', 'standard', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')},
        q{SELECT count(*) FROM idem_webhook_sources WHERE source LIKE :'p'} ],
    [ 'idem_publish', '', q{SELECT idem_publish('letters', '{"a": 1}', :'k', '{"h": 1}')}, q{SELECT count(*) FROM idem_outbox WHERE key LIKE :'p'} ],
    [ 'idem_outbox_take', q{SELECT idem_publish(:'k', '{"a": 1}', 'x'), idem_publish(:'k', '{"a": 1}') \g /dev/null}, q{SELECT 1 / (count(*) = 2)::int FROM idem_outbox_take(:'k')},
        q{SELECT count(*) FROM idem_outbox_leases WHERE topic LIKE :'p'} ],
    [ 'idem_outbox_take, takes back', q{SELECT idem_publish(:'k', '{"a": 1}', 'x') \g /dev/null
        SELECT count(*) FROM idem_outbox_take(:'k', lease => '1 us') \g /dev/null}, q{SELECT 1 / (count(*) = 1)::int FROM idem_outbox_take(:'k')},
        q{SELECT count(*) FROM idem_outbox WHERE topic LIKE :'p' AND failures = 1} ],
    [ 'idem_outbox_ack', q{SELECT idem_publish(:'k', '{"a": 1}', 'x') \g /dev/null
        SELECT id, fence FROM idem_outbox_take(:'k') \gset}, q{SELECT 1 / idem_outbox_ack(ARRAY[:id], :fence)} ],
    [ 'idem_outbox_nack', q{SELECT idem_publish(:'k', '{"a": 1}', 'x') \g /dev/null
        SELECT id, fence FROM idem_outbox_take(:'k') \gset}, q{SELECT 1 / idem_outbox_nack(ARRAY[:id], :fence)}, q{SELECT count(*) FROM idem_outbox WHERE topic LIKE :'p' AND failures = 1} ],
    [ 'idem_forget', q{SELECT idem_claim(:'k') \g /dev/null}, q{SELECT idem_forget(:'k')} ],
    [ 'idem_redact', q{SELECT idem_execute(:'k', 'SELECT 1 AS one') \g /dev/null}, q{SELECT idem_redact(:'k')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND response IS NULL} ],
    [ 'idem_resolve', q{SELECT idem_begin(:'k', lease => '1 us', scope => 'manual') \g /dev/null}, q{SELECT idem_resolve(:'k', 'completed', '{}', 200, 'manual')},
        q{SELECT count(*) FROM idem_keys WHERE key LIKE :'p' AND state = 'c'} ],
    [ 'idem_in_flight', '', q{SELECT count(*) FROM idem_in_flight()} ],
    [ 'idem_key', '', q{SELECT idem_key('a', 1, 2.5, current_date, true)} ],
    [ 'idem_fingerprint', q{SELECT idem_fingerprint('{"b": [1.0, {"c": "d"}], "a": null}') AS fingerprint \gset},
        q{SELECT 1 / (idem_fingerprint('{"b": [1.0, {"c": "d"}], "a": null}') = :'fingerprint')::int} ],
    [ 'idem_fingerprint_text', '', q{SELECT idem_fingerprint_text('a'), idem_fingerprint_bytes('a')} ],
    [ 'idem_next_id', '', q{SELECT idem_next_id(), idem_uuid_v7(), (idem_id_parts(5)).seq} ],
    [ 'idem_token_issue', '', q{SELECT idem_token_issue('me')} ],
    [ 'idem_token_redeem', q{SELECT idem_token_issue('me') AS token \gset}, q{SELECT idem_token_redeem(:'token', 'me')}, q{SELECT count(*) FROM idem_tokens WHERE :'p' <> ''} ],
    [ 'idem_token_rotate_secret', '', q{SELECT idem_token_rotate_secret()} ],
    [ 'idem_lock', '', q{SELECT idem_lock(:'k', '1 d', 'me', wait => '10 min')}, q{SELECT count(*) FROM idem_locks WHERE key LIKE :'p'} ],
    [ 'idem_lock, waits', q{SELECT idem_lock('held', '1 d') \g /dev/null}, q{SELECT idem_lock('held', wait => '1 ms')} ],
    [ 'idem_lock, takeover', q{SELECT idem_lock(:'k', '1 us') \g /dev/null}, q{SELECT idem_lock(:'k', '1 d')}, q{SELECT count(*) FROM idem_locks WHERE key LIKE :'p' AND attempt = 2} ],
    [ 'idem_lock_renew', q{SELECT idem_lock(:'k') AS fence \gset}, q{SELECT idem_lock_renew(:'k', :fence, '1 d')},
        q{SELECT count(*) FROM idem_locks WHERE key LIKE :'p' AND lease_until > now() + interval '20 h'} ],
    [ 'idem_unlock', q{SELECT idem_lock(:'k') AS fence \gset}, q{SELECT idem_unlock(:'k', :fence)}, q{SELECT count(*) FROM idem_locks WHERE key LIKE :'p' AND state = 'r'} ],
    [ 'idem_assert_fence', q{SELECT idem_lock(:'k') AS fence \gset}, q{SELECT idem_assert_fence(:'k', :fence)} ],
    [ 'optimistic_update', q{SELECT version FROM item WHERE id = 1 \gset}, q{SELECT outcome FROM optimistic_update('item', '{"id": 1}', :version, '{"name": "a"}')} ],
    [ 'conditional_update', '', q{SELECT outcome FROM conditional_update('item', '{"id": 2}', '{"id": 2}', '{"name": "a"}')} ],
    [ 'conditional_adjust', '', q{SELECT outcome FROM conditional_adjust('item', '{"id": 3}', 'stock', -1)}, q{SELECT 1000000 - stock FROM item WHERE id = 3} ],
    [ 'pessimistic_lock', '', q{SELECT outcome FROM pessimistic_lock('item', '{"id": 4}', '1 s')} ],
    [ 'pessimistic_lock_many', '', q{SELECT count(outcome) FROM pessimistic_lock_many('item', ARRAY['{"id": 5}', '{"id": 4}']::jsonb[])} ],
    [ 'unique_insert', '', q{SELECT outcome FROM unique_insert('once', jsonb_build_object('id', :n, 'name', :'k'))}, q{SELECT count(*) FROM once WHERE name LIKE :'p'} ],
    [ 'guarded_insert', '', q{SELECT outcome FROM guarded_insert('loose', jsonb_build_object('id', :n, 'name', :'k'), '{id}')}, q{SELECT count(*) FROM loose WHERE name LIKE :'p'} ],
    [ 'idem_transition', q{SELECT state = 'new' AS new FROM item WHERE id = 6 \gset}, q{SELECT outcome FROM idem_transition('item', '{"id": 6}', NULL, CASE WHEN :'new' THEN 'old' ELSE 'new' END)},
        q{SELECT count(*) FROM idem_transition_log WHERE key = '{"id": 6}' AND from_state IS NOT NULL} ],
    [ 'idem_can_transition', '', q{SELECT idem_can_transition('m', 'new', 'old'), idem_machine_dot('m'), idem_machine_mermaid('m')} ],
    [ 'idem_machine_define', '', q{SELECT idem_machine_define('m', '{"initial": ["new"], "transitions": {"new": ["old"], "old": ["new"]}}')} ],
    [ 'idem_machine_define, another', '', q{SELECT idem_machine_define(:'k', '{"initial": ["a"], "transitions": {"a": ["b"]}}')}, q{SELECT count(*) FROM idem_machines WHERE name LIKE :'p'} ],
    [ 'idem_machine_drop', q{SELECT idem_machine_define(:'k', '{"initial": ["a"], "transitions": {"a": ["b"]}}') \g /dev/null}, q{SELECT idem_machine_drop(:'k')} ],
    [ 'idem_machine_attach, detach', '', q{SELECT idem_machine_attach('plain', 'state', 'm'), idem_machine_detach('plain', 'state')} ],
    [ 'idem_machine_validate', '', q{SELECT idem_machine_attach('plain', 'state', 'm', validate => false), idem_machine_validate('plain', 'state'), idem_machine_detach('plain', 'state')} ],
    [ 'optimistic_enable, disable', '', q{SELECT optimistic_enable('plain'), optimistic_disable('plain')} ],
    [ 'idem_scope_set', '', q{SELECT idem_scope_set(:'k', '1 h')}, q{SELECT count(*) FROM idem_scopes WHERE scope LIKE :'p'} ],
    [ 'idem_scope_reset', q{SELECT idem_scope_set(:'k', '1 h') \g /dev/null}, q{SELECT idem_scope_reset(:'k', 'ttl', 'owner')} ],
    [ 'idem_scope_drop', q{SELECT idem_scope_set(:'k', '1 h') \g /dev/null}, q{SELECT idem_scope_drop(:'k')} ],
    [ 'statistics', '', q{SELECT count(*) FROM idem_stats} ],
    # (PL/pgSQL, loaded with one of its settings and without the next, cannot be loaded again.)
    [ 'idem_health', q{DO 'BEGIN END';}, q{SELECT count(*) FROM idem_health()} ],
    [ 'idem_sweep', q{SELECT count(*) FROM idem_claim_many(ARRAY[:'k' || 1, :'k' || 2], '1 us') \g /dev/null}, q{CALL idem_sweep()} ],);

my $names = 0;

# The call and what lets it fail, in one transaction, unless it has several of its own.
sub armed
{
    my ($call, $kind, $at) = @_;
    my $sql = $call->[2];
    return $sql =~ /^CALL/ ? "SELECT fail_$kind($at, true) \\g /dev/null\n$sql" : "SELECT fail_$kind($at) \\; $sql";
}

# How often a call allocates, by the kind of fault: in the last of three runs; new: in the first of a session.
sub allocations
{
    my ($call, $kind, $new) = @_;
    my ($name, $given, $sql) = @$call;
    my $script = '';
    foreach (1 .. ($new ? 1 : 3))
    {
        my $n = ++$names;
        my $f = $kind eq 'palloc' ? 0 : 1;
        $script .= "\\set k 'count $n'\n\\set n $n\n$given\n" . armed($call, $kind, 0) . " \\g /dev/null\nSELECT faults_seen($f);\n";
    }
    my $out = $node->safe_psql('postgres', $script);
    return (split /\n/, $out)[-1];
}

# Half of the calls run by themselves; half in a transaction that goes on from a savepoint and calls again.
sub attempt
{
    my ($prefix, $call, $kind, $at, $new) = @_;
    my ($name, $given, $sql) = @$call;
    my $n = ++$names;
    my $armed = armed($call, $kind, $at);
    my $lines = ($new ? "\\c\n" : '') . "\\set k '$prefix $n'\n\\set n $n\n$given\n";
    return "$lines$armed \\g /dev/null\n\\set state :SQLSTATE\n\\set message :LAST_ERROR_MESSAGE\nSELECT fail_$kind(-1) \\g /dev/null\n\\echo :state '|' :message\n" if $n % 2 || $kind eq 'malloc' || $sql =~ /^CALL/;
    return "$lines BEGIN;\nSAVEPOINT s;\n$armed \\g /dev/null\n\\set state :SQLSTATE\n\\set message :LAST_ERROR_MESSAGE\n\\if :ERROR\nROLLBACK TO s;\n$sql \\g /dev/null\n\\set again :SQLSTATE\n"
      . "\\else\n\\set again 00000\n\\endif\nCOMMIT;\n\\set end :SQLSTATE\nROLLBACK;\nSELECT fail_$kind(-1) \\g /dev/null\n\\echo :state again :again :end '|' :message\n";
}

# The calls that are tried: all of them, or some.
sub sample
{
    my ($count, $most) = @_;
    return 1 .. $count if $count <= $most;
    my $step = $count / $most;
    return map { 1 + int(($_ + rand) * $step) } 0 .. $most - 1;
}

my %tried;
sub fails_cleanly
{
    my ($call, $kind, $new, $most) = @_;
    my ($name, undef, $sql, $trace) = @$call;
    my $label = "$name: " . ($kind eq 'palloc' ? 'an allocation' : 'malloc') . ' fails' . ($new ? ' in a new session' : '');
    my $prefix = "$kind$new $name";
    $most //= $new || $kind eq 'malloc' ? ($all ? 200 : 6) : ($all ? 1500 : 24);
    my @sample = sample(allocations($call, $kind, $new), $most);
    my $quoted = $prefix =~ s/'/''/gr;
    my $before = $trace ? $node->safe_psql('postgres', "\\set p '$quoted %'\n$trace") : 0;
    my $script = "\\set VERBOSITY sqlstate\nSET client_min_messages = error;\n" . join('', map { attempt($quoted, $call, $kind, $_, $new) } @sample);
    $script .= "\\echo after\nSHOW lock_timeout;\nSELECT pg_current_xact_id_if_assigned() IS NULL;\n"
      . "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype NOT IN ('virtualxid', 'relation');\n";
    my ($out, $err) = ('', '');
    # A message that could not be told to the client is no failure of the call; the end of its session is.
    my $status = $node->psql('postgres', $script, stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => ['-q']);
    my ($ends, $after) = split /^after\n/m, $out;
    my @ends = split /\n/, $ends // '';
    # A new hash table that gets no memory the server calls an internal error.
    s/^XX000(.*) \| failed to initialize hash table ".*/53200$1/ || s/ \| .*// foreach @ends;
    # What OpenSSL says of its own want of memory the server does not tell from another failure of its.
    my $failure = $kind eq 'malloc' && $sql =~ /fingerprint|token|http_begin|verify_request|api_key/ ? qr/53200|XX000/ : qr/53200/;
    # The commit may be what fails.
    my @bad = grep { !/^(00000|$failure)$|^(00000|$failure) again 00000 (00000|53200)$/ } @ends;
    is_deeply([ $status, \@bad, scalar(@ends), $after ], [ 0, [], scalar(@sample), "0\nt\n0" ], $label) or diag(substr($err, 0, 2000));
    my $failed = grep { /53200|XX000/ } @ends;
    my $succeeded = grep { /00000$/ } @ends;
    $tried{$kind} += @sample;
    $tried{"$kind failed"} += $failed;
    if ($trace)
    {
        my $count = $node->safe_psql('postgres', "\\set p '$quoted %'\n$trace") - $before;
        cmp_ok($count, '==', $succeeded, "$label: nothing of what failed is there, all of what did not");
    }
    return;
}

foreach my $call (@calls)
{
    fails_cleanly($call, 'palloc', '');
    fails_cleanly($call, 'palloc', ' new');
    fails_cleanly($call, 'malloc', '');
    fails_cleanly($call, 'malloc', ' new') if $all;
}
# Row flows keep the most for the session's later calls, and what a failed call had half-made must not be among it.
fails_cleanly($_, 'palloc', ' new', 500) foreach grep { $_->[0] eq 'conditional_adjust' } @calls;
note(join ', ', map { "$_: $tried{$_}" } sort keys %tried);
is_sound('memory');

# --- The disk -----------------------------------------------------------------------------------------------------------------

# Each of these writes more than fits into the pages that are there.
my $many = q{FROM generate_series(1, 400) AS n};
my @writes = (
    [ 'idem_claim_many', "SELECT count(*) FROM idem_claim_many(ARRAY(SELECT :'k' || n $many))", q{SELECT count(*) FROM idem_keys} ],
    [ 'idem_claim', "SELECT count(idem_claim(:'k' || n)) $many", q{SELECT count(*) FROM idem_keys} ],
    [ 'idem_begin', "SELECT count(idem_begin(:'k' || n, lease => '1 d')) $many", q{SELECT count(*) FROM idem_keys} ],
    [ 'a response', "SELECT idem_claim(:'k'), idem_complete(:'k', (SELECT jsonb_agg(md5(random()::text)) FROM generate_series(1, 4000)))", q{SELECT count(*) FROM idem_keys} ],
    [ 'idem_lock', "SELECT count(idem_lock(:'k' || n)) $many", q{SELECT count(*) FROM idem_locks} ],
    [ 'idem_token_redeem', "SELECT count(idem_token_redeem(idem_token_issue())) $many", q{SELECT count(*) FROM idem_tokens} ],
    [ 'idem_hit', "SELECT count(idem_hit(:'k' || n)) $many", q{SELECT count(*) FROM idem_counters} ],
    [ 'idem_publish', "SELECT count(idem_publish('letters', '{}', :'k' || n)) $many", q{SELECT count(*) FROM idem_outbox} ],
    [ 'idem_allow', "SELECT count((idem_allow(:'k' || n, 1e-3, 1)).allowed) $many", q{SELECT count(*) FROM idem_rates} ],
    [ 'idem_transition', "SELECT count(idem_transition('item', jsonb_build_object('id', 7), NULL, CASE n % 2 WHEN 0 THEN 'new' ELSE 'old' END)) $many",
        q{SELECT count(*) FROM idem_transition_log} ],);
# What failed above has left room.
$node->safe_psql('postgres', 'VACUUM (FULL) idem_keys, idem_tokens, idem_locks, idem_counters, idem_rates, idem_outbox, idem_transition_log');
foreach my $write (@writes)
{
    my ($name, $sql, $count) = @$write;
    my $before = $node->safe_psql('postgres', $count);
    my @states;
    # The n-th page that the call needs is not to be had.
    foreach my $n (1 .. 8)
    {
        my $k = 'disk ' . ++$names . ' ';
        my ($out, $err);
        my $status = $node->psql('postgres', <<SQL, stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => ['-q']);
\\set VERBOSITY sqlstate
\\set k '$k'
SELECT fail_extend($n) \\g /dev/null
$sql \\g /dev/null
\\echo :SQLSTATE
SELECT fail_extend(-1) \\g /dev/null
$count;
SQL
        my ($state, $rows) = split /\n/, $out;
        push @states, $state;
        last if $state eq '00000';
        is("$status $state $rows", "0 53100 $before", "$name: no room for page $n, and nothing is there");
    }
    cmp_ok(scalar(grep { $_ eq '53100' } @states), '>=', 1, "$name: there was a page that it needed");
    my $k = 'disk ' . ++$names . ' ';
    is(sqlstate($node, "\\set k '$k'\n$sql"), '00000', "$name: with room, it goes through");
}
is_sound('disk');

# --- The lock table -----------------------------------------------------------------------------------------------------------

# A session takes all but a few.
my $hog = $node->background_psql('postgres');
$node->safe_psql('postgres', <<'SQL');
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'done' || n FROM generate_series(1, 5000) AS n));
CREATE FUNCTION take_locks(most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    taken int := 0;
BEGIN
    WHILE taken < most LOOP
        PERFORM pg_advisory_xact_lock(taken);
        taken := taken + 1;
    END LOOP;
    RETURN taken;
EXCEPTION WHEN out_of_memory THEN
    RETURN taken;
END $$;
SQL
my $dir = PostgreSQL::Test::Utils::tempdir();
my $room = $hog->query_safe('SELECT take_locks(1000000)');
cmp_ok($room, '>', 100, 'there is room for some locks');
my $half = q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT CASE n % 20 WHEN 0 THEN 'done' ELSE :'k' END || n FROM generate_series(1, 5000) AS n))};
my @locking = (
    [ 'idem_claim_many', q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT :'k' || n FROM generate_series(1, 5000) AS n))}, q{SELECT count(*) FROM idem_keys}, 5000 ],
    [ 'idem_claim_many, among duplicates', $half, q{SELECT count(*) FROM idem_keys}, 4750 ],
    [ 'idem_claim', q{SELECT idem_claim(:'k')}, q{SELECT count(*) FROM idem_keys}, 1 ],
    [ 'idem_begin', q{SELECT idem_begin(:'k', lease => '1 h', wait => '10 min')}, q{SELECT count(*) FROM idem_keys}, 1 ],
    [ 'idem_execute', q{SELECT idem_execute(:'k', 'SELECT 1 AS one')}, q{SELECT count(*) FROM idem_keys}, 1 ],
    [ 'idem_lock', q{SELECT idem_lock(:'k', wait => '10 min')}, q{SELECT count(*) FROM idem_locks}, 1 ],
    [ 'idem_serialize', q{SELECT 1 \; SELECT idem_serialize(:'k')}, q{SELECT 0}, 0 ],
    [ 'idem_token_redeem', q{SELECT idem_token_redeem(idem_token_issue())}, q{SELECT count(*) FROM idem_tokens}, 1 ],
    [ 'idem_hit', q{SELECT idem_hit(:'k')}, q{SELECT count(*) FROM idem_counters}, 1 ],
    [ 'idem_publish', q{SELECT idem_publish('letters', '{}', :'k')}, q{SELECT count(*) FROM idem_outbox}, 1 ],
    [ 'guarded_insert', q{SELECT guarded_insert('loose', jsonb_build_object('id', nextval('serial') + 1000000), '{id}')}, q{SELECT count(*) FROM loose}, 1 ],);
foreach my $call (@locking)
{
    my ($name, $sql, $count, $adds) = @$call;
    my (@states, @wrong);
    foreach my $left (0 .. 8, 12, 20, 40)
    {
        my $before = $node->safe_psql('postgres', $count);
        my $k = 'locks ' . ++$names . ' ';
        # A session is there before, as coming takes a lock, too.
        my $file = "$dir/$names";
        append_to_file("$file.sql", "\\set VERBOSITY sqlstate\n\\set k '$k'\nSELECT pg_backend_pid();\n\\! until test -e $file.go; do sleep 0.01; done\n"
              . "$sql \\g /dev/null\n\\echo :SQLSTATE\nSELECT 'on';\n");
        my $victim = IPC::Run::start([ 'stdbuf', '-oL', 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', "$file.sql" ], '>', "$file.out", '2>', "$file.err");
        usleep(5_000) until slurp_file("$file.out") =~ /^\d+\n/;
        $hog->query_safe('BEGIN; SELECT take_locks(' . ($room - $left) . ')');
        append_to_file("$file.go", '');
        $victim->finish;
        $hog->query_safe('ROLLBACK');
        my (undef, $state, $on) = split /\n/, slurp_file("$file.out");
        push @states, $state;
        my $added = $node->safe_psql('postgres', $count) - $before;
        push @wrong, "$state $on, $added added, with room for $left"
          unless $on eq 'on' && ($state eq '00000' ? $added == $adds : $state eq '53200' && $added == 0);
    }
    is_deeply(\@wrong, [], "$name: without room for its locks it fails as a whole");
    is("$states[0] $states[-1]", '53200 00000', "$name: without room, and with it");
}
$hog->quit;

# --- Subtransactions ------------------------------------------------------------------------------------------------------------

# Beyond 64 of them, others look up in pg_subtrans whose they are.
my $nested = $node->background_psql('postgres');
my $levels = 70;
$nested->query_safe('BEGIN');
foreach my $level (1 .. $levels)
{
    $nested->query_safe("SAVEPOINT s$level");
    $nested->query_safe("SELECT idem_claim('nested $level')");
    $nested->query_safe("SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'nested $level of ' || n FROM generate_series(1, 20) AS n))") if $level % 10 == 0;
    $nested->query_safe("SELECT idem_lock('nested $level')") if $level % 10 == 5;
}

# Which levels' keys others find in flight; what they find free they give back.
sub in_flight
{
    return $node->safe_psql('postgres', <<SQL);
BEGIN;
SELECT concat_ws(' ', min(level), max(level), count(*)) FROM generate_series(1, $levels) AS level WHERE idem_try_claim('nested ' || level) = 'in_flight';
SELECT count(*) FROM generate_series(10, $levels, 10) AS level, generate_series(1, 20) AS n WHERE idem_try_claim('nested ' || level || ' of ' || n) = 'in_flight';
ROLLBACK;
SQL
}
is(in_flight(), lines("1 $levels $levels", 140), 'all levels are in flight');
is(sqlstate($node, q{SET lock_timeout = '50ms'; SELECT idem_claim('nested 69')}), '55P03', 'the deepest can be waited for');
is(sqlstate($node, q{SET lock_timeout = '50ms'; SELECT idem_claim_many(ARRAY['nested 70 of 3'])}), '55P03', 'and so can a batch in it');
my @wrong;
foreach my $level (reverse 36 .. $levels)
{
    $nested->query_safe("ROLLBACK TO s$level");
    my $below = $level - 1;
    my $expected = lines("1 $below $below", 20 * int($below / 10));
    my $found = in_flight();
    push @wrong, "$level: $found" unless $found eq $expected;
}
is_deeply(\@wrong, [], 'what is rolled back is free at once, level by level');
is($node->safe_psql('postgres', q{SELECT idem_claim('nested 36'), idem_lock('nested 65') > 0}), 't|t', 'and is somebody else\'s');
is($nested->query_safe(q{SELECT idem_claim('nested 36'), idem_claim('nested 37'), idem_claim('nested 35')}), 'f|t|f', 'as the rest learns');
$nested->query_safe('RELEASE s20');
$nested->query_safe('COMMIT');
is( $node->safe_psql('postgres', q{SELECT string_agg(substr(key, 8), ' ' ORDER BY substr(key, 8)::int) FROM idem_keys WHERE key ~ '^nested \d+$'}),
    join(' ', 1 .. 37),
    'what was kept is there');
is($node->safe_psql('postgres', q{SELECT count(*) FROM idem_keys WHERE key ~ '^nested \d+ of'}), '60', 'batches, too');
is($node->safe_psql('postgres', q{SELECT string_agg(key, ', ' ORDER BY key) FROM idem_locks WHERE key LIKE 'nested%'}),
    'nested 15, nested 25, nested 35, nested 5, nested 65', 'and locks');
$nested->quit;
is_sound('locks and subtransactions');

unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|TRAP:|leak/, 'nothing else went wrong');
$node->stop;
done_testing();
