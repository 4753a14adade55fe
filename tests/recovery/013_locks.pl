# Lease locks: many waiters are served in order, one at a time, soon and without looking again and again; locks and fences
# outlive a crash and a promotion.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = start_server('locks', streaming => 1, conf => "max_prepared_transactions = 2\nautovacuum = off\nstats_fetch_consistency = none\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE served (n serial, who text, beside bigint, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE inside (who text);

-- Takes the lock, notes who else is in, frees the lock; each in a transaction of its own.
CREATE PROCEDURE visit(who text) LANGUAGE plpgsql AS $$
DECLARE
    fence bigint := idem_lock('room', '10 min', wait => '10 min');
BEGIN
    COMMIT;
    INSERT INTO inside VALUES (who);
    INSERT INTO served (who, beside) SELECT visit.who, count(*) - 1 FROM inside;
    COMMIT;
    DELETE FROM inside AS i WHERE i.who = visit.who;
    COMMIT;
    PERFORM idem_unlock('room', fence);
END $$;
SQL

# Starts a statement that is going to wait, and returns when it does: for a lock of the server's ("Lock"), or for a lease.
sub start_waiting
{
    my ($who, $sql, $how) = @_;
    my $session = $node->background_psql('postgres');
    $session->query_safe("SET application_name = '$who'");
    $session->query_until(qr/started/, "\\echo started\n$sql;\n");
    await($who, $how);
    return $session;
}

sub await
{
    my ($who, $how) = @_;
    $node->poll_query_until('postgres',
        "SELECT wait_event_type = '$how' FROM pg_stat_activity WHERE application_name = '$who' AND state = 'active'")
      or die "$who does not wait";
}

sub looks { return $node->safe_psql('postgres', q{SELECT idx_scan FROM pg_stat_user_indexes WHERE relname = 'idem_locks'}) }

# In order, one at a time.
my $fence = $node->safe_psql('postgres', q{SELECT idem_lock('room', '10 min')});
my ($before, $began) = (looks(), time);
my @visitors = map { start_waiting("visitor $_", "CALL visit('$_')", $_ == 1 ? 'Extension' : 'Lock') } 1 .. 8;
sleep 3;
$node->safe_psql('postgres', "SELECT idem_unlock('room', $fence)");
$_->query_safe('SELECT 1') foreach @visitors;
$_->quit foreach @visitors;
my $waited = time - $began;
is($node->safe_psql('postgres', q{SELECT string_agg(who, ' ' ORDER BY n) FROM served}), '1 2 3 4 5 6 7 8', 'served in the order in which they came');
is($node->safe_psql('postgres', 'SELECT max(beside) FROM served'), '0', 'one at a time');
my $took = $node->safe_psql('postgres',
    q{SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY took) FROM (SELECT extract(epoch FROM at - lag(at) OVER (ORDER BY n)) AS took FROM served) s});
cmp_ok($took, '<', 0.25, "one woken by the other ($took s in the middle)");
# They report what they have counted when they end.
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'visitor%'}) or die 'visitors stay';
my $looked = looks() - $before;
# Each visitor takes and frees (two looks), waits for a change and then sees it (a few), and the first looks once a second.
cmp_ok($looked, '<', 41 + $waited, "without looking again and again ($looked looks in $waited s)");
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), '0', 'nobody is left in the queue');

# Soon after the unlock has committed.
$node->safe_psql('postgres', 'CREATE TABLE woken (at timestamptz, freed timestamptz)');
# Notes when a waiter was woken, and when the call with the fence that wakes it was answered.
sub wake_waiter
{
    my ($call) = @_;
    $fence = $node->safe_psql('postgres', q{SELECT idem_lock('door', '10 min')});
    my $waiter = start_waiting('waiter',
        q{WITH l AS MATERIALIZED (SELECT idem_lock('door', '1 ms', wait => '10 min')) INSERT INTO woken SELECT clock_timestamp() FROM l}, 'Extension');
    my $freed = $node->safe_psql('postgres', sprintf("SELECT $call \\g /dev/null\nSELECT clock_timestamp()", $fence));
    $waiter->query_safe("UPDATE woken SET freed = '$freed' WHERE freed IS NULL");
    $waiter->quit;
    return;
}
wake_waiter(q{idem_unlock('door', %s)}) foreach 1 .. 20;
# The least delay is that of an idle machine, and the median is what even a busy one keeps to.
sub least_and_median
{
    my ($since) = @_;
    return split /\|/, $node->safe_psql('postgres',
        "SELECT min(ms), percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM (SELECT extract(epoch FROM at - $since) * 1000 AS ms FROM woken) w");
}
my ($least, $median) = least_and_median('freed');
cmp_ok($least, '<', 10, "woken $least ms after the unlock was answered, at best");
cmp_ok($median, '<', 100, "and $median ms in the middle");

# As soon after the end of a lease that nobody frees, and not before it.
$node->safe_psql('postgres', 'TRUNCATE woken');
foreach my $round (1 .. 20)
{
    $node->safe_psql('postgres', q{SELECT idem_lock('door', '60 ms') \g /dev/null
        WITH l AS MATERIALIZED (SELECT lease_until FROM idem_locks WHERE key = 'door'),
             t AS MATERIALIZED (SELECT idem_lock('door', '1 ms', wait => '10 min'), lease_until FROM l)
        INSERT INTO woken SELECT clock_timestamp(), lease_until FROM t});
}
($least, $median) = least_and_median('freed');
cmp_ok($least, '>=', 0, 'nobody took a lease that was not over');
cmp_ok($least, '<', 10, "woken $least ms after the end of the lease, at best");
cmp_ok($median, '<', 100, "and $median ms in the middle");

# A lease that is made shorter is waited for no longer than it lasts.
$node->safe_psql('postgres', 'TRUNCATE woken');
wake_waiter(q{idem_lock_renew('door', %s, '1 ms')}) foreach 1 .. 5;
my $of_locks = $median;
($least, $median) = least_and_median('freed');
cmp_ok($median, '<', 500, "taken over $median ms after the lease was made shorter, in the middle");

# A waiter for a key is woken in the same way.
my @delays;
foreach my $round (1 .. 10)
{
    $fence = $node->safe_psql('postgres', "SELECT fence FROM idem_begin('key $round', lease => '10 min')");
    my $waiter = start_waiting('waiter', "INSERT INTO woken SELECT clock_timestamp() FROM idem_begin('key $round', wait => '10 min')", 'Extension');
    my $freed = $node->safe_psql('postgres', "SELECT idem_complete('key $round', fence => $fence) \\g /dev/null\nSELECT clock_timestamp()");
    $waiter->query_safe('SELECT 1');
    push @delays, $node->safe_psql('postgres', "SELECT extract(epoch FROM max(at) - '$freed') * 1000 FROM woken");
    $waiter->quit;
}
@delays = sort { $a <=> $b } @delays;
cmp_ok($delays[5], '<', 25 + 2 * $of_locks, "the one who waits for a key is woken as soon ($delays[5] ms)");

# An unlock that is prepared wakes the waiter, which then waits for that transaction.
$fence = $node->safe_psql('postgres', q{SELECT idem_lock('safe', '10 min')});
my $waiter = start_waiting('waiter', q{SELECT idem_lock('safe', '10 min', wait => '10 min')}, 'Extension');
$node->safe_psql('postgres', "BEGIN; SELECT idem_unlock('safe', $fence); PREPARE TRANSACTION 'unlock'");
await('waiter', 'Lock');
$node->safe_psql('postgres', q{COMMIT PREPARED 'unlock'});
$waiter->query_safe('SELECT 1');
is($node->safe_psql('postgres', q{SELECT idem_lock('safe') IS NULL}), 't', 'woken by an unlock that was prepared');

# A waiter that is killed leaves the queue.
my $head = start_waiting('head', q{SELECT idem_lock('safe', '10 min', wait => '10 min')}, 'Extension');
my $next = start_waiting('next', q{SELECT idem_lock('safe', '10 min', wait => '10 min')}, 'Lock');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'head'});
await('next', 'Extension');
eval { $head->quit };
$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'next'});
eval { $next->quit };
$waiter->quit;
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'})
  or die 'somebody is left in the queue';
pass('the next in the queue moves up when the first is killed');

# A crash: what was committed is held, what was not is free, and no fence is given out twice.
my @fences = $node->safe_psql('postgres', q{SELECT idem_lock('held', '1 h', 'owner')});
my $open = $node->background_psql('postgres');
$open->query_safe('BEGIN');
push @fences, $open->query_safe(q{SELECT idem_lock('open', '1 h')});
$open->query_safe("SELECT idem_unlock('held', $fences[0])");
$node->stop('immediate');
eval { $open->quit };
$node->start;
is($node->safe_psql('postgres', q{SELECT idem_lock('held') IS NULL}), 't', 'after a crash the lock is held');
push @fences, $node->safe_psql('postgres', q{SELECT idem_lock('open', '1 h')});
is($node->safe_psql('postgres', "SELECT idem_lock_renew('held', $fences[0], '1 h')"), 't', 'and its holder goes on');
is($node->safe_psql('postgres', "SELECT idem_lock('held', '1 h', 'owner') = $fences[0]"), 't', 'also by its name');
is(sqlstate($node, "BEGIN; SELECT idem_assert_fence('held', $fences[0]); COMMIT"), '00000', 'and may write');
is(sqlstate($node, "SELECT idem_assert_fence('open', $fences[1])"), 'ID001', 'but not with a fence that was never committed');

# A standby, then promoted.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('locks_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
push @fences, $node->safe_psql('postgres', q{SELECT idem_lock('moved', '1 h')});
push @fences, $node->safe_psql('postgres', q{SELECT idem_lock('lapsed', '1 ms')});
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
foreach my $refused ("idem_lock('new')", "idem_lock('held', wait => '10 min')", "idem_lock_renew('held', $fences[0])",
    "idem_unlock('held', $fences[0])", "idem_unlock('held', 1)", "idem_assert_fence('held', $fences[0])")
{
    is(sqlstate($standby, "SELECT $refused"), '25006', "refused on the standby: $refused");
}
$node->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', q{SELECT idem_lock('moved') IS NULL}), 't', 'on the promoted standby the lock is held');
is(sqlstate($standby, "BEGIN; SELECT idem_assert_fence('held', $fences[0]); COMMIT"), '00000', 'and its holder may write');
is($standby->safe_psql('postgres', "SELECT idem_lock_renew('moved', $fences[3])"), 't', 'and renew');
push @fences, $standby->safe_psql('postgres', q{SELECT idem_lock('lapsed', '1 h')});
push @fences, $standby->safe_psql('postgres', q{SELECT idem_lock('new', '1 h')});
is($standby->safe_psql('postgres', "SELECT idem_unlock('lapsed', $fences[4])"), 'f', 'a late holder cannot free what was taken over');
is_growing('fences grow across crash and promotion', @fences);
check_indexes($standby, 'idem_locks', 'the indexes agree with the table');

$standby->stop;
done_testing();
