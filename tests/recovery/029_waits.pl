# Every wait of every function ends when it is told to: with 57014 on statement_timeout and cancel, with 55P03 on the user's lock_timeout
# where it is a lock that is waited for, with 57P01 on terminate. Nothing of the wait is left in the transaction, which goes on from its
# savepoint, and once the holder is gone the same call goes through.

use strict;
use warnings;

use IPC::Run;
use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = start_server('waits', conf => "autovacuum = off\nlog_statement = none\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE item (id int PRIMARY KEY, name text, stock int NOT NULL DEFAULT 10, state text NOT NULL DEFAULT 'new');
INSERT INTO item (id) VALUES (1), (2);
SELECT optimistic_enable('item');
CREATE TABLE loose (id int, name text);
CREATE INDEX ON loose (id);
CREATE TABLE plain (id int PRIMARY KEY, state text NOT NULL DEFAULT 'new', version bigint NOT NULL DEFAULT 1);
SELECT idem_machine_define('m', '{"initial": ["new"], "transitions": {"new": ["old"]}}');
SELECT idem_machine_define('unused', '{"initial": ["new"], "transitions": {"new": ["old"]}}');
SELECT idem_machine_attach('item', 'state', 'm');
SELECT idem_scope_set('manual', on_lease_expiry => 'manual'), idem_scope_set('changed', '1 h');
SELECT idem_publish('ack', '{}') FROM generate_series(1, 3);
CREATE TABLE taken AS SELECT array_agg(id) AS ids, min(fence) AS fence FROM idem_outbox_take('ack', 2, '1 d');
SELECT idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody');
SQL

# A delivery of GitHub's, with the secret of its documentation.
my $webhook = qq[SELECT idem_webhook_receive('github', '{"X-GitHub-Delivery": "d",]
  . qq[ "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}', 'Hello, World!')];

# What is waited for: a lock, or nothing that the server knows of.
my $lock = 'Lock';
my $nap = 'Extension';

# `given`, committed: its rows become $1, $2 … in what follows. `hold`: in a transaction that stays open. `call`: what waits.
my @waits = (
    [ 'idem_claim', $lock, '', q{SELECT idem_claim('k')}, q{SELECT idem_claim('k')} ],
    [ 'idem_claim_many', $lock, '', q{SELECT idem_claim('m')}, q{SELECT idem_claim_many(ARRAY['a', 'm', 'z'])} ],
    [ 'idem_claim_many, a run of new keys first', $lock, '', q{SELECT idem_claim('r99')},
        q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'r' || n FROM generate_series(10, 99) AS n))} ],
    [ 'idem_begin', $lock, '', q{SELECT idem_claim('b')}, q{SELECT idem_begin('b', wait => '10 min')} ],
    [ 'idem_begin, bounded', $lock, '', q{SELECT idem_claim('bb')}, q{SELECT idem_begin('bb', wait => '10 min')} ],
    [ 'idem_begin, leased', $lock, '', q{SELECT idem_claim('bl')}, q{SELECT idem_begin('bl', lease => '1 min', wait => '10 min')} ],
    [ 'idem_begin of a lease', $nap, q{SELECT fence FROM idem_begin('l', lease => '1 d')}, q{SELECT 1}, q{SELECT idem_begin('l', wait => '10 min')},
        q{SELECT idem_release('l', $1)} ],
    [ 'idem_begin of a lease, bounded', $nap, q{SELECT fence FROM idem_begin('lb', lease => '1 d')}, q{SELECT 1}, q{SELECT idem_begin('lb', wait => '10 min')},
        q{SELECT idem_release('lb', $1)} ],
    [ 'idem_begin of a takeover', $lock, q{SELECT fence FROM idem_begin('t', lease => '1 us')}, q{SELECT idem_begin('t', lease => '1 min')},
        q{SELECT idem_begin('t', lease => '1 min', wait => '10 min')} ],
    [ 'idem_step', $lock, q{SELECT fence FROM idem_begin('c1', lease => '1 d')}, q{SELECT idem_renew('c1', $1)}, q{SELECT idem_step('c1', $1, 'p')} ],
    [ 'idem_renew', $lock, q{SELECT fence FROM idem_begin('c2', lease => '1 d')}, q{SELECT idem_step('c2', $1, 'p')}, q{SELECT idem_renew('c2', $1)} ],
    [ 'idem_complete', $lock, q{SELECT fence FROM idem_begin('c3', lease => '1 d')}, q{SELECT idem_renew('c3', $1)}, q{SELECT idem_complete('c3', '{}', 200, $1)} ],
    [ 'idem_release', $lock, q{SELECT fence FROM idem_begin('c4', lease => '1 d')}, q{SELECT idem_complete('c4', '{}', 200, $1)}, q{SELECT idem_release('c4', $1)} ],
    [ 'idem_forget', $lock, '', q{SELECT idem_claim('f')}, q{SELECT idem_forget('f')} ],
    [ 'idem_redact', $lock, q{SELECT outcome FROM idem_execute('x', 'SELECT 1 AS one')}, q{SELECT idem_forget('x')}, q{SELECT idem_redact('x')} ],
    [ 'idem_resolve', $lock, q{SELECT fence FROM idem_begin('d', lease => '1 us', scope => 'manual')}, q{SELECT idem_forget('d', scope => 'manual')},
        q{SELECT idem_resolve('d', 'released', scope => 'manual')} ],
    [ 'idem_hit', $lock, '', q{SELECT idem_hit('h')}, q{SELECT idem_hit('h')} ],
    [ 'idem_consume', $lock, '', q{SELECT idem_consume('me', 'm')}, q{SELECT idem_consume('me', 'm')} ],
    [ 'idem_http_begin', $lock, '', q{SELECT idem_http_begin('web', 'POST', '/', 'h')}, q{SELECT idem_http_begin('web', 'POST', '/', 'h', wait => '10 min')} ],
    [ 'idem_http_complete', $lock, q{SELECT fence FROM idem_http_begin('web', 'POST', '/', 'hc', lease => '1 d')}, q{SELECT idem_http_complete('web', 'hc', 200, NULL, NULL, NULL, $1)},
        q{SELECT idem_http_complete('web', 'hc', 201, NULL, NULL, NULL, $1)} ],
    [ 'idem_allow', $lock, '', q{SELECT idem_allow('door', 1e-3, 5)}, q{SELECT idem_allow('door', 1e-3, 5)} ],
    [ 'idem_api_key_set', $lock, '', q{SELECT idem_api_key_set('k', 'a secret of thirty-two bytes, so')}, q{SELECT idem_api_key_set('k', 'a secret of thirty-two bytes, so')} ],
    [ 'idem_webhook_source_set', $lock, '', q{SELECT idem_webhook_source_set('s', 'slack', 'a secret of a source')}, q{SELECT idem_webhook_source_set('s', 'slack', 'a secret of a source')} ],
    [ 'idem_webhook_receive', $lock, '', $webhook, $webhook ],
    [ 'idem_outbox_ack', $lock, q{SELECT fence FROM taken}, q{SELECT idem_outbox_ack(ids[1:1], fence) FROM taken}, q{SELECT idem_outbox_ack(ids[2:2], fence) FROM taken} ],
    [ 'idem_outbox_nack', $lock, q{SELECT fence FROM taken}, q{SELECT idem_outbox_nack(ids[1:1], fence) FROM taken}, q{SELECT idem_outbox_nack(ids[2:2], fence) FROM taken} ],
    [ 'idem_outbox_renew', $lock, q{SELECT fence FROM taken}, q{SELECT idem_outbox_ack(ids[1:1], fence) FROM taken}, q{SELECT idem_outbox_renew(ids[2:2], fence, '1 d') FROM taken} ],
    [ 'idem_publish of a dedup_id', $lock, '', q{SELECT idem_publish('ack', '{}', dedup_id => 'd')}, q{SELECT idem_publish('ack', '{}', dedup_id => 'd')} ],
    [ 'idem_outbox_take of a locked table', $lock, '', q{LOCK TABLE idem_outbox_leases}, q{SELECT count(*) FROM idem_outbox_take('ack')} ],
    [ 'idem_publish to a locked table', $lock, '', q{LOCK TABLE idem_outbox}, q{SELECT idem_publish('ack', '{}')} ],
    [ 'idem_serialize', $lock, '', q{SELECT idem_serialize('s')}, q{SELECT idem_serialize('s')} ],

    [ 'idem_lock of an uncommitted one', $lock, '', q{SELECT idem_lock('u')}, q{SELECT idem_lock('u', wait => '10 min')} ],
    [ 'idem_lock of an uncommitted one, bounded', $lock, '', q{SELECT idem_lock('ub')}, q{SELECT idem_lock('ub', wait => '10 min')} ],
    [ 'idem_lock, head of the queue', $nap, q{SELECT idem_lock('q', '1 d')}, q{SELECT 1}, q{SELECT idem_lock('q', wait => '10 min')}, q{SELECT idem_unlock('q', $1)} ],
    [ 'idem_lock, head of the queue, bounded', $nap, q{SELECT idem_lock('qb', '1 d')}, q{SELECT 1}, q{SELECT idem_lock('qb', wait => '10 min')},
        q{SELECT idem_unlock('qb', $1)} ],
    [ 'idem_lock, further back', $lock, q{SELECT idem_lock('qf', '1 d')}, 'head', q{SELECT idem_lock('qf', wait => '10 min')}, q{SELECT idem_unlock('qf', $1)} ],
    [ 'idem_lock, further back, bounded', $lock, q{SELECT idem_lock('qg', '1 d')}, 'head', q{SELECT idem_lock('qg', wait => '10 min')}, q{SELECT idem_unlock('qg', $1)} ],
    [ 'idem_lock of an asserted one', $lock, q{SELECT idem_lock('a', '1 us')}, q{SELECT idem_assert_fence('a', $1)}, q{SELECT idem_lock('a', wait => '10 min')} ],
    [ 'idem_lock of an asserted one, bounded', $lock, q{SELECT idem_lock('ab', '1 us')}, q{SELECT idem_assert_fence('ab', $1)},
        q{SELECT idem_lock('ab', wait => '10 min')} ],
    [ 'idem_unlock of an asserted one', $lock, q{SELECT idem_lock('au', '1 d')}, q{SELECT idem_assert_fence('au', $1)}, q{SELECT idem_unlock('au', $1)} ],
    [ 'idem_unlock', $lock, q{SELECT idem_lock('l1', '1 d')}, q{SELECT idem_lock_renew('l1', $1)}, q{SELECT idem_unlock('l1', $1)} ],
    [ 'idem_lock_renew', $lock, q{SELECT idem_lock('l2', '1 d')}, q{SELECT idem_unlock('l2', $1)}, q{SELECT idem_lock_renew('l2', $1)} ],
    [ 'idem_assert_fence', $lock, q{SELECT idem_lock('l3', '1 d')}, q{SELECT idem_unlock('l3', $1)}, q{SELECT idem_assert_fence('l3', $1)} ],

    [ 'optimistic_update', $lock, '', q{UPDATE item SET name = 'x' WHERE id = 1}, q{SELECT optimistic_update('item', '{"id": 1}', 1, '{"name": "y"}')} ],
    [ 'conditional_update', $lock, '', q{UPDATE item SET name = 'x' WHERE id = 1}, q{SELECT conditional_update('item', '{"id": 1}', '{"stock": 10}', '{"name": "y"}')} ],
    [ 'conditional_adjust', $lock, '', q{UPDATE item SET stock = 9 WHERE id = 1}, q{SELECT conditional_adjust('item', '{"id": 1}', 'stock', -1)} ],
    [ 'pessimistic_lock', $lock, '', q{SELECT 1 FROM item WHERE id = 1 FOR UPDATE}, q{SELECT pessimistic_lock('item', '{"id": 1}')} ],
    [ 'pessimistic_lock, bounded', $lock, '', q{SELECT 1 FROM item WHERE id = 1 FOR UPDATE}, q{SELECT pessimistic_lock('item', '{"id": 1}', '10 min')} ],
    [ 'pessimistic_lock of a locked table', $lock, '', q{LOCK TABLE item}, q{SELECT pessimistic_lock('item', '{"id": 1}')} ],
    [ 'pessimistic_lock of a locked table, bounded', $lock, '', q{LOCK TABLE item}, q{SELECT pessimistic_lock('item', '{"id": 1}', '10 min')} ],
    [ 'pessimistic_lock_many', $lock, '', q{SELECT 1 FROM item WHERE id = 2 FOR UPDATE}, q{SELECT pessimistic_lock_many('item', ARRAY['{"id": 1}', '{"id": 2}']::jsonb[])} ],
    [ 'pessimistic_lock_many, bounded', $lock, '', q{SELECT 1 FROM item WHERE id = 2 FOR UPDATE},
        q{SELECT pessimistic_lock_many('item', ARRAY['{"id": 1}', '{"id": 2}']::jsonb[], '10 min')} ],
    [ 'unique_insert', $lock, '', q{INSERT INTO item (id) VALUES (3)}, q{SELECT unique_insert('item', '{"id": 3}')} ],
    [ 'guarded_insert', $lock, '', q{SELECT guarded_insert('loose', '{"id": 3}', '{id}')}, q{SELECT guarded_insert('loose', '{"id": 3}', '{id}')} ],
    [ 'idem_transition', $lock, '', q{UPDATE item SET name = 'x' WHERE id = 2}, q{SELECT idem_transition('item', '{"id": 2}', NULL, 'old')} ],

    [ 'idem_machine_define', $lock, '', q{UPDATE item SET name = 'x' WHERE id = 1},
        q{SELECT idem_machine_define('m', '{"initial": ["new"], "transitions": {"new": ["old"], "old": ["new"]}}')} ],
    [ 'idem_machine_drop', $lock, '', q{SELECT idem_machine_define('other', '{"initial": ["new"], "transitions": {"new": []}}')}, q{SELECT idem_machine_drop('unused')} ],
    [ 'idem_machine_attach', $lock, '', q{UPDATE plain SET id = 1}, q{SELECT idem_machine_attach('plain', 'state', 'm')} ],
    [ 'idem_machine_validate', $lock, '', q{LOCK TABLE item IN SHARE UPDATE EXCLUSIVE MODE}, q{SELECT idem_machine_validate('item', 'state')} ],
    [ 'optimistic_enable', $lock, '', q{UPDATE plain SET id = 1}, q{SELECT optimistic_enable('plain')} ],
    [ 'optimistic_disable', $lock, '', q{SELECT 1 FROM plain}, q{SELECT optimistic_disable('plain')} ],
    [ 'idem_machine_detach', $lock, '', q{SELECT 1 FROM plain}, q{SELECT idem_machine_detach('plain', 'state')} ],
    [ 'idem_scope_set', $lock, '', q{SELECT idem_scope_set('changed', '2 h')}, q{SELECT idem_scope_set('changed', '3 h')} ],
    [ 'idem_scope_reset', $lock, '', q{SELECT idem_scope_set('changed', '2 h')}, q{SELECT idem_scope_reset('changed', 'ttl')} ],
    [ 'idem_scope_drop', $lock, '', q{SELECT idem_scope_set('changed', '2 h')}, q{SELECT idem_scope_drop('changed')} ],
    [ 'idem_token_rotate_secret', $lock, '', q{SELECT idem_token_rotate_secret()}, q{SELECT idem_token_rotate_secret()} ],

    [ 'a locked table of keys', $lock, '', q{LOCK TABLE idem_keys}, q{SELECT idem_claim('locked table')} ],
    [ 'a locked table of keys, looked up', $lock, '', q{LOCK TABLE idem_keys}, q{SELECT * FROM idem_lookup('k')} ],
    [ 'a locked table of keys, listed', $lock, '', q{LOCK TABLE idem_keys}, q{SELECT count(*) FROM idem_in_flight()} ],
    [ 'a locked table of tokens', $lock, q{SELECT idem_token_issue()}, q{LOCK TABLE idem_tokens}, q{SELECT idem_token_redeem('$1')} ],
    [ 'locked numbers', $lock, '', q{ALTER SEQUENCE idem_id_high_water OWNER TO CURRENT_USER}, q{SELECT idem_next_id()} ],
    [ 'locked fences', $lock, '', q{ALTER SEQUENCE idem_fence_high_water OWNER TO CURRENT_USER}, q{SELECT idem_lock('new')} ],
    [ 'idem_sweep of a locked table', $lock, '', q{LOCK TABLE idem_keys}, q{CALL idem_sweep()} ],
    [ 'idem_sweep, resting', $nap, q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'x' || n FROM generate_series(1, 30) AS n), '1 us')}, q{SELECT 1}, q{CALL idem_sweep(1, '5 min')}, q{CALL idem_sweep()},
        q{SELECT 1} ],);

my $dir = PostgreSQL::Test::Utils::tempdir();
my $sessions = 0;

# Runs the call twice, in a session of its own; what becomes of each, and of the session after each.
sub wait_twice
{
    my ($call, $first, $second) = @_;
    my $is_statement = $call =~ /^CALL/;
    my ($begin, $back, $end) = $is_statement ? ('') x 3 : ("BEGIN;\nSELECT pg_current_xact_id() \\g /dev/null\nSAVEPOINT s;", 'ROLLBACK TO s;', 'COMMIT;');
    # What the transaction, or the session, holds apart from itself and this query. (The locks on the outbox and on
    # the page of ids are kept for the whole transaction: open_member_held in member.hpp.)
    my $left = q{SELECT 'left', string_agg(concat_ws(' ', locktype, relation::regclass, mode), ', ') FROM pg_locks WHERE pid = pg_backend_pid()
        AND NOT (locktype IN ('virtualxid', 'transactionid') OR relation::regclass::text IN ('pg_locks', 'pg_class', 'pg_class_oid_index')
                 OR mode = 'RowExclusiveLock' AND relation::regclass::text IN ('idem_outbox', 'idem_outbox_leases', 'idem_id_high_water'))
        AND NOT (relation::regclass::text LIKE 'pg\_%');};
    my $attempt = sub { "$_[0];\n$begin\n$call;\n\\echo ended :SQLSTATE\n$back\nSHOW lock_timeout;\n$left\n$end\nRESET lock_timeout;\nRESET statement_timeout;" };
    my $script = join "\n", q{SET application_name = 'waiter';}, $attempt->($first), $attempt->($second), '';
    my $file = "$dir/" . $sessions++;
    append_to_file("$file.sql", $script);
    my $handle = IPC::Run::start([ 'stdbuf', '-oL', 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres'), '-f', "$file.sql" ],
        '>', "$file.out", '2>', "$file.err", IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
    return { handle => $handle, file => $file };
}

# The process that waits as it should; undef when it does not come to that.
sub waiting
{
    my ($kind) = @_;
    foreach (1 .. 1000)
    {
        my $pid = $node->safe_psql('postgres',
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'waiter' AND state = 'active' AND wait_event_type = '$kind'");
        return $pid if $pid;
        usleep(5_000);
    }
    return 0;
}

sub told { my ($waiter) = @_; return slurp_file("$waiter->{file}.out") }
sub end_of { my ($waiter) = @_; $waiter->{handle}->finish; return told($waiter) }

foreach my $wait (@waits)
{
    my ($name, $kind, $given, $hold, $call, $free) = (@$wait, '');
    if ($given)
    {
        my $answer = $node->safe_psql('postgres', $given);
        s/\$1/$answer/g foreach $hold, $call, $free;
    }
    my $holder = $node->background_psql('postgres');
    my $head;
    if ($hold eq 'head')
    {
        # Somebody who is before us in the queue: cancelled in the end.
        $head = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SET application_name = 'head'}, '-c', $call ], '>', \my $out, '2>', \my $err);
        $node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'head' AND wait_event = '} . ($node->pg_version >= 17 ? 'IdemHolderRelease' : 'Extension') . q{'});
    }
    else
    {
        $holder->query_safe("BEGIN; $hold");
    }

    # A lease and a pause are no locks: there the user's lock_timeout is nothing.
    my $waiter = wait_twice($call, q{SET lock_timeout = '60ms'} . ($kind eq $nap ? q{; SET statement_timeout = '120ms'} : ''), q{SET statement_timeout = '60ms'});
    is( end_of($waiter),
        lines('ended ' . ($kind eq $nap ? '57014' : '55P03'), '60ms', 'left|', 'ended 57014', '0', 'left|', ''),
        "$name: lock_timeout, statement_timeout");

    $waiter = wait_twice($call, 'SELECT', 'SELECT');
    my $pid = waiting($kind);
    ok($pid, "$name: waits");
    $node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
    foreach (1 .. 2000)
    {
        last if told($waiter) =~ /^left/m;
        usleep(5_000);
    }
    $pid = waiting($kind);
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 10000)");
    (my $out = end_of($waiter)) =~ s/^\n+//;
    is($out, lines('ended 57014', '0', 'left|', ''), "$name: cancel");
    like(slurp_file("$waiter->{file}.err"), qr/FATAL: .*57P01/, "$name: terminate");

    if ($head)
    {
        $node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'head'});
        $head->finish;
    }
    else
    {
        $holder->query_safe('ROLLBACK');
    }
    $node->safe_psql('postgres', $free) if $free;
    $holder->quit;
    my $last = $call =~ /^CALL/ ? $call : "BEGIN; $call; COMMIT";
    is(sqlstate($node, "SET statement_timeout = '20s'; SET idem.default_lease = '1ms'; $last"), '00000', "$name: then it goes through")
      unless $call =~ /idem_sweep\(1/;
}

is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()}), '0', 'nothing is left locked');

# A wait that has its own bound answers when that is over, and never raises, not even when the lock is had in the same moment: all but the
# first in the queue give up at the time at which it does.
$node->safe_psql('postgres', q{SELECT idem_lock('held', '1 d')});
$node->pgbench(
    '--no-vacuum --client=12 --jobs=2 --transactions=2500', 0, [qr{processed: 30000/30000}], [qr{^(?!.*aborted)}s],
    'thirty thousand waits came to an end of their own',
    { '029_bounded' => q{SELECT idem_lock('held', '10 s', wait => '2 ms');} });

# A duplicate that is gone when it is looked for is no error: without triggers, the row is inserted after all.
$node->safe_psql('postgres', 'CREATE TABLE churned (id int PRIMARY KEY)');
$node->pgbench(
    '--no-vacuum --client=6 --jobs=2 --time=4', 0, [qr{failed transactions: 0 }], [qr{^$}],
    'a row that others insert and delete is inserted or found',
    { '029_churned' => qq{SELECT outcome FROM unique_insert('churned', '{"id": 1}');\nDELETE FROM churned;} });

$node->stop;
done_testing();
