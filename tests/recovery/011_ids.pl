# Ids of idem_next_id are unique and grow: with 64 sessions at a time, whatever the clock does, over a crash in the midst of
# them, after a checkpoint, in a restored database and on a promoted standby.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library() or plan skip_all => 'needs a C compiler, for a clock that can be set';

my $hour = 3600;
my @ids;

sub draw { my ($session) = @_; push @ids, $session->safe_psql('postgres', 'SELECT idem_next_id()') for 1 .. 2; return; }

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "max_connections = 100\nrestart_after_crash = on\nwal_receiver_status_interval = 1s\n");
start_by_clock($primary, $library, 0);
$primary->safe_psql('postgres', 'CREATE EXTENSION idem; CREATE TABLE drawn (session int, n int, id bigint)');

# 64 sessions, each of which draws a quarter of its ids in a subtransaction that is rolled back.
$primary->pgbench(
    '--no-vacuum --client=64 --transactions=1', 0, [qr{processed: 64/64}], [qr{^(?!.*aborted)}s],
    'sixty-four sessions draw ten thousand ids each',
    {
        '011_draw' => q{
            INSERT INTO drawn SELECT :client_id, n, idem_next_id() FROM generate_series(1, 5000) AS n;
            DO $$
            DECLARE
                undone bigint[];
            BEGIN
                BEGIN
                    SELECT array_agg(idem_next_id()) INTO undone FROM generate_series(1, 2500);
                    RAISE division_by_zero;
                EXCEPTION WHEN division_by_zero THEN
                    INSERT INTO drawn SELECT :client_id, 5000 + n, id FROM unnest(undone) WITH ORDINALITY AS u(id, n);
                END;
            END $$;
            INSERT INTO drawn SELECT :client_id, n, idem_next_id() FROM generate_series(7501, 10000) AS n; } });
is($primary->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM drawn'), '640000|640000', 'no id twice');
is( $primary->safe_psql(
        'postgres', 'SELECT count(*) FROM (SELECT id, lag(id) OVER (PARTITION BY session ORDER BY n) AS before FROM drawn) d
         WHERE id <= before'),
    '0', 'ids grow within each session');
push @ids, $primary->safe_psql('postgres', 'SELECT max(id) FROM drawn');
draw($primary);
is_growing('and from all of them to the next', @ids);

# A running server's clock.
set_clock($primary, -$hour);
draw($primary);
set_clock($primary, 24 * $hour);
draw($primary);
set_clock($primary, 0);
draw($primary);
is_growing('ids grow while the clock is set back and forth', @ids);
is($primary->safe_psql('postgres', "SELECT at > clock_timestamp() + interval '23 h' FROM idem_id_parts($ids[-1])"),
    't', 'having borrowed from the future');

# Ten thousand more than a millisecond holds while the clock stands where it is, an hour behind.
push @ids, split /\n/, $primary->safe_psql('postgres', 'SELECT idem_next_id() FROM generate_series(1, 10000)');
is_growing('ids grow over the end of a millisecond', @ids);

# Crashes, with ids drawn in a transaction that stays open.
foreach my $how ('immediate stop', 'immediate stop after a checkpoint', 'backend killed')
{
    my $open = $primary->background_psql('postgres');
    $open->query_safe('BEGIN');
    push @ids, $open->query_safe('SELECT idem_next_id()');
    $primary->safe_psql('postgres', 'CHECKPOINT') if $how =~ /checkpoint/;
    push @ids, $open->query_safe('SELECT max(idem_next_id()) FROM generate_series(1, 10000)');
    if ($how =~ /killed/)
    {
        my $pid = $open->query_safe('SELECT pg_backend_pid()');
        kill 'KILL', $pid;
        $primary->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)")
          or die 'the server did not come back after a backend was killed';
    }
    else
    {
        $primary->stop('immediate');
        start_by_clock($primary, $library, -$hour);
    }
    eval { $open->quit };
    draw($primary);
    is_growing("ids grow over a crash although the clock is behind: $how", @ids);
}

# A restart in good order.
$primary->stop('fast');
start_by_clock($primary, $library, -2 * $hour);
draw($primary);
is_growing('ids grow over a restart although the clock is behind', @ids);

# A restored database.
my $dump = $primary->basedir . '/dump.sql';
$primary->command_ok([ 'pg_dump', '-d', $primary->connstr('postgres'), '-f', $dump ], 'dump');
my $target = PostgreSQL::Test::Cluster->new('target');
$target->init;
start_by_clock($target, $library, -3 * $hour);
$target->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('postgres'), '-f', $dump ],
    'restore');
is_growing('ids of a restored database are greater than every one that was dumped',
    @ids, $target->safe_psql('postgres', 'SELECT idem_next_id()'));
$target->stop;

# A standby, promoted when the primary is gone.
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
start_by_clock($standby, $library, -4 * $hour);
is(sqlstate($standby, 'SELECT idem_next_id()'), '25006', 'a standby makes no ids');
like($standby->safe_psql('postgres', 'SELECT idem_uuid_v7()'), qr/^[0-9a-f]{8}-[0-9a-f]{4}-7/, 'but UUIDs');
is($standby->safe_psql('postgres', "SELECT node, seq FROM idem_id_parts($ids[-1])"),
    $primary->safe_psql('postgres', "SELECT node, seq FROM idem_id_parts($ids[-1])"), 'and takes ids apart');
draw($primary);
my $open = $primary->background_psql('postgres');
$open->query_safe('BEGIN');
push @ids, $open->query_safe('SELECT idem_next_id()');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
$primary->stop('immediate');
eval { $open->quit };
$standby->promote;
draw($standby);
is_growing('ids grow over a promotion although the clock is behind', @ids);
is($standby->safe_psql('postgres', "SET idem.node_id = 9; SELECT (idem_id_parts(idem_next_id())).node"), '9', 'another node');
$standby->stop;

done_testing();
