# After a crash: acknowledged claims are there, uncommitted ones are not, and no fence is given out twice, not even one that
# was given to a transaction that the crash ended.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = start_server('crash', conf => "restart_after_crash = on\nautovacuum = off\nmax_prepared_transactions = 2\n");
my @fences;

sub draw
{
    my ($key) = @_;
    push @fences, $node->safe_psql('postgres', "SELECT fence FROM idem_begin('$key', lease => '1 h')");
    return $fences[-1];
}

# The kinds of end a server can come to. Each leaves a running server behind.
sub stop_immediately
{
    $node->stop('immediate');
    $node->start;
}

sub kill_postmaster
{
    my @processes = split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');
    $node->kill9;
    # The others see that the postmaster is gone, but not at once, and until then the data directory is theirs.
    foreach (1 .. 600)
    {
        last unless grep { kill 0, $_ } @processes;
        usleep(100_000);
    }
    # The postmaster itself can linger as a zombie where nobody collects orphans, and would be taken for alive.
    unlink $node->data_dir . '/postmaster.pid';
    $node->start;
}

sub kill_backend
{
    my ($session) = @_;
    my $pid = $session->query_safe('SELECT pg_backend_pid()');
    kill 'KILL', $pid;
    # The next answer may come from before the postmaster has noticed.
    $node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)")
      or die 'the server did not come back after a backend was killed';
}

my @crashes = (
    [ 'immediate stop', \&stop_immediately, '' ],
    [ 'immediate stop after a checkpoint', \&stop_immediately, 'CHECKPOINT' ],
    [ 'backend killed', \&kill_backend, '' ],
    [ 'postmaster killed', \&kill_postmaster, '' ],
    [ 'postmaster killed after a checkpoint', \&kill_postmaster, 'CHECKPOINT' ],
    [ 'two immediate stops', sub { stop_immediately(); stop_immediately(); }, '' ],);

my $round = 0;
foreach my $crash (@crashes)
{
    my ($how, $end, $before) = @$crash;
    $round++;

    my $held = draw("held-$round");
    is($node->safe_psql('postgres', "SELECT idem_claim('claimed-$round')"), 't', "$how: a claim is acknowledged");
    is( $node->safe_psql('postgres', "SELECT idem_claim_many(ARRAY['many-$round-a', 'many-$round-b'])"),
        lines("many-$round-a", "many-$round-b"),
        "$how: a bulk claim is acknowledged");
    $node->safe_psql('postgres', "SELECT idem_execute('paid-$round', 'SELECT $round AS amount')");

    my $open = $node->background_psql('postgres');
    $open->query_safe('BEGIN');
    push @fences, $open->query_safe("SELECT fence FROM idem_begin('open-$round', lease => '1 h')");
    $open->query_safe("SELECT idem_claim('unacknowledged-$round')");
    $open->query_safe("SELECT idem_claim_many(ARRAY['unacknowledged-many-$round'])");
    $open->query_safe("SELECT idem_complete('held-$round', NULL, 200, $held)");
    if ($before)
    {
        $node->safe_psql('postgres', $before);
        push @fences, $open->query_safe("SELECT fence FROM idem_begin('open-later-$round', lease => '1 h')");
    }

    $end->($open);
    eval { $open->quit };

    is( $node->safe_psql(
            'postgres',
            "SELECT key, state FROM unnest(ARRAY['claimed-$round', 'many-$round-a', 'many-$round-b', 'paid-$round',
                'held-$round'])
             AS k(key), idem_lookup(key)"),
        lines("claimed-$round|completed", "many-$round-a|completed", "many-$round-b|completed", "paid-$round|completed",
            "held-$round|in_progress"),
        "$how: what was acknowledged is there");
    is( $node->safe_psql('postgres', "SELECT outcome, response FROM idem_execute('paid-$round', 'SELECT 0 AS amount')"),
        qq(completed|[{"amount": $round}]),
        "$how: a response is replayed");
    is( $node->safe_psql(
            'postgres',
            "SELECT idem_try_claim(k) FROM unnest(ARRAY['open-$round', 'unacknowledged-$round',
                'unacknowledged-many-$round']) AS k"),
        lines('acquired', 'acquired', 'acquired'),
        "$how: what was not committed is free");
    draw("after-$round");
    is(sqlstate($node, "SELECT idem_complete('held-$round', NULL, 200, $held)"), '00000',
        "$how: the holder completes with its fence");
}

# A prepared transaction goes on holding through a crash.
$node->safe_psql('postgres', <<'SQL');
BEGIN;
SELECT idem_claim('prepared'), idem_serialize('queue');
PREPARE TRANSACTION 'holder';
SQL
stop_immediately();
is($node->safe_psql('postgres', q{SELECT idem_try_claim('prepared')}), 'in_flight', 'prepared: its key is in flight');
is(sqlstate($node, q{SET lock_timeout = '50ms'; SELECT idem_claim('prepared')}), '55P03', 'prepared: a claim waits for it');
is(sqlstate($node, q{SET lock_timeout = '50ms'; BEGIN; SELECT idem_serialize('queue'); COMMIT}), '55P03', 'prepared: the queue waits for it');
$node->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
is($node->safe_psql('postgres', q{SELECT idem_try_claim('prepared')}), 'completed', 'prepared: committed at last');
is(sqlstate($node, q{SET lock_timeout = '50ms'; BEGIN; SELECT idem_serialize('queue'); COMMIT}), '00000', 'prepared: the queue goes on');

is_growing('no fence is given out twice, in the order in which they were given', @fences);
is( $node->safe_psql('postgres', "SELECT count(*) FROM generate_series(1, $round) AS n WHERE idem_claim('claimed-' || n)"),
    '0',
    'claims of all rounds are still duplicates');
check_indexes($node, 'idem_keys', 'the indexes agree with the table');

$node->stop;
done_testing();
