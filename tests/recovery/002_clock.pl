# Fences grow whatever the clock does: when it is set back under a running server, across a crash with a transaction open, on
# a promoted standby and in a restored database whose server's clock is behind.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library() or plan skip_all => 'needs a C compiler, for a clock that can be set';

my $hour = 3600;
my $number = 0;
my @fences;

sub draw
{
    my ($node) = @_;
    $number++;
    push @fences, $node->safe_psql('postgres', "SELECT fence FROM idem_begin('k$number', lease => '1 min')");
}

sub clock_lag
{
    my ($node) = @_;
    return $node->safe_psql('postgres', 'SELECT round((' . time() . ' - extract(epoch FROM clock_timestamp())) / 3600)');
}

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', 'wal_receiver_status_interval = 1s');
start_by_clock($primary, $library, 0);
$primary->safe_psql('postgres', 'CREATE EXTENSION idem');
draw($primary);

# A running server.
set_clock($primary, -$hour);
is(clock_lag($primary), 1, 'the clock was set back');
draw($primary) for 1 .. 3;
set_clock($primary, 24 * $hour);
draw($primary) for 1 .. 2;
set_clock($primary, 0);
draw($primary) for 1 .. 3;
is_growing('fences grow while the clock is set back and forth', @fences);

# A crash with a transaction open.
foreach my $checkpoint (0, 1)
{
    my $open = $primary->background_psql('postgres');
    $open->query_safe('BEGIN');
    push @fences, $open->query_safe("SELECT fence FROM idem_begin('open-1-$checkpoint', lease => '1 min')");
    $primary->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
    push @fences, $open->query_safe("SELECT fence FROM idem_begin('open-2-$checkpoint', lease => '1 min')");
    $primary->stop('immediate');
    eval { $open->quit };
    start_by_clock($primary, $library, -$hour);
    draw($primary) for 1 .. 2;
    is_growing('fences grow over a crash' . ($checkpoint ? ' after a checkpoint' : '') . ' although the clock is behind', @fences);
}

# A server that was shut down in good order.
$primary->stop('fast');
start_by_clock($primary, $library, -2 * $hour);
draw($primary);
is_growing('fences grow over a restart although the clock is behind', @fences);

# A restored database.
my $dump = $primary->basedir . '/dump.sql';
$primary->command_ok([ 'pg_dump', '-d', $primary->connstr('postgres'), '-f', $dump ], 'dump');
my $target = PostgreSQL::Test::Cluster->new('target');
$target->init;
start_by_clock($target, $library, -3 * $hour);
$target->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('postgres'), '-f', $dump ],
    'restore');
is_growing(
    'fences of a restored database are greater than every one that was dumped',
    @fences,
    $target->safe_psql('postgres', "SELECT fence FROM idem_begin('restored', lease => '1 min')"));
$target->stop;

# A standby, promoted while the primary has a transaction open.
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
start_by_clock($standby, $library, -4 * $hour);
draw($primary);
my $open = $primary->background_psql('postgres');
$open->query_safe('BEGIN');
push @fences, $open->query_safe("SELECT fence FROM idem_begin('open', lease => '1 min')");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
$primary->stop('immediate');
eval { $open->quit };
$standby->promote;
is(clock_lag($standby), 4, 'the clock of the promoted standby is behind');
draw($standby) for 1 .. 2;
is_growing('fences grow over a promotion although the clock is behind', @fences);
$standby->stop;

done_testing();
