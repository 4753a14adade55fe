# A server that is killed at random points under load, again and again: what clients were told stays true, no fence and no number
# comes twice, and tables and indexes are sound. IDEM_KILLS: how often; IDEM_SEED: for the same load and the same kills.

use strict;
use warnings;

use IdemCluster;
use IdemLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{IDEM_KILLS} // 6;
my $seed = srand($ENV{IDEM_SEED} // time);
note("IDEM_SEED=$seed");

# Small buffers, so that pages are written out, and torn apart from their neighbours, long before a checkpoint.
my $node = start_server('kill', conf => <<'CONF');
restart_after_crash = on
shared_preload_libraries = 'idem'
idem.databases = 'postgres'
idem.sweep_interval = 300ms
shared_buffers = 1MB
autovacuum_naptime = 1s
deadlock_timeout = 100ms
log_statement = none
max_connections = 40
CONF
prepare_load($node);

sub postmaster { my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid'); return $pid }

# One of the server's processes dies, and the server starts itself again.
sub kill_one
{
    my ($pids) = @_;
    my @pids = split /\n/, $node->safe_psql('postgres', $pids);
    my $pid = $pids[ int rand @pids ];
    kill 'KILL', $pid;
    return;
}

my @ends = (
    [ 'postmaster killed', sub { kill_postmaster($node); $node->start } ],
    [ 'all processes killed', sub { kill_postmaster($node, all => 1); $node->start } ],
    [ 'backend killed', sub { kill_one(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}) } ],
    [ 'writer killed', sub { kill_one(q{SELECT pid FROM pg_stat_activity WHERE backend_type IN ('checkpointer', 'background writer', 'walwriter')}) } ],
    [ 'immediate stop', sub { $node->stop('immediate'); $node->start } ],);

my $clients = 5;
my $all = 0;
foreach my $round (1 .. $kills)
{
    my ($name, $end) = @{ $ends[ $round <= @ends ? $round - 1 : int rand @ends ] };
    $name = "kill $round: $name";
    my $load = start_load($node, $round, $clients);
    is_loaded($load, 20 * $clients) or fail("$name: clients got to work");
    usleep(rand 1_500_000);
    $end->();
    my $told = finish_load($load);
    # Their ends do not tell that the server is up again.
    $node->poll_query_until('postgres', 'SELECT true') or die 'the server did not come back';
    $all += @{ $told->{lines} };
    note("$name: " . @{ $told->{lines} } . ' lines');
    is_intact($node, $told, $name);
    has_clean_relations($node, $name);
}
note("$kills kills, $all lines told");
is( $node->safe_psql('postgres', q{SELECT string_agg(DISTINCT what, ', ' ORDER BY what) FROM told WHERE what <> 'token in_flight'}),
    'asserted, doubtful, drawn, duplicate, edited, guarded, hit, inserted, issued, leased, locked, moved, nothing, number, paid, sold, '
      . 'token accepted, token duplicate',
    'everything that clients do was done');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP:|signal 11|signal 6|invalid page|could not read block|checksum/, 'nothing else went wrong');

$node->stop;
done_testing();
