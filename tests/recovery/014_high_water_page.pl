# The pages of the high-water marks are replayed to what they were when they were logged, whatever was drawn without a record in
# between: the server compares them, on a standby and after a crash.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library() or plan skip_all => 'needs a C compiler, for a clock that can be set';

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', <<'CONF');
wal_consistency_checking = 'generic'
wal_receiver_status_interval = 1s
checkpoint_timeout = 1h
autovacuum = off
CONF
start_by_clock($primary, $library, 0);
$primary->safe_psql('postgres', 'CREATE EXTENSION idem');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# Every step of the clock goes beyond what is reserved, so that each page is logged once in a round, after and before draws
# that are not.
my $rounds = 30;
my (@ids, @fences, $seconds);

sub draw
{
    my ($from, $to) = @_;
    my $session = $primary->background_psql('postgres');
    foreach my $round ($from .. $to)
    {
        set_clock($primary, $seconds = 5 * $round);
        push @ids, split /\n/, $session->query_safe('SELECT idem_next_id() FROM generate_series(1, 3)');
        push @fences, $session->query_safe("SELECT fence FROM idem_begin('key $round', lease => '1 h')");
        push @fences, $session->query_safe("SELECT idem_lock('lock', '1 h')");
        $session->query_safe("SELECT idem_unlock('lock', $fences[-1])");
        push @fences, $session->query_safe(q{SELECT idem_lock('another', '1 us', wait => '1 s')});
    }
    $session->quit;
    return;
}

# What a record that holds only the bytes in which two states of the page differ gets wrong: a byte that the value drawn last
# shares with the mark to come, but not with the one that is logged. Ids can be counted up to such a value, as long as the
# clock is behind.
sub draw_up_to_a_shared_byte
{
    my $session = $primary->background_psql('postgres');
    my $id = sub { push @ids, $session->query_safe('SELECT idem_next_id()'); return $ids[-1] };
    set_clock($primary, $seconds - 3600);
    1 while $id->() % 256 == 255;
    $session->query_safe('CHECKPOINT');
    isnt($id->() % 256, 0, 'logged after a checkpoint: a mark with any last byte but zero');
    1 while $id->() % 256 != 0;
    set_clock($primary, $seconds += 5);
    is($id->() % 256, 0, 'logged again: one whose last byte is that of the id before');
    $session->quit;
    return;
}

# How many records of the server's generic kind there are.
sub logged
{
    my ($from, $to) = @_;
    my ($out, $err) = run_command(
        [ 'pg_waldump', '--path', $primary->data_dir . '/pg_wal', '--rmgr', 'Generic', '--start', $from, '--end', $to ]);
    return scalar grep { /rmgr: Generic/ } split /\n/, $out;
}

sub is_consistent
{
    my ($node, $name) = @_;
    unlike(slurp_file($node->logfile), qr/inconsistent page found|PANIC/, $name);
}

my $start = $primary->lsn('flush');
draw(1, $rounds);
draw_up_to_a_shared_byte();
my $drawn = $primary->lsn('flush');
cmp_ok(logged($start, $drawn), '>=', 2 * $rounds, 'each page was logged in each round');
my $replayed = eval { $primary->wait_for_catchup($standby, 'replay', $drawn); 1 };
ok($replayed, 'the standby has replayed them');
is_consistent($standby, 'and found the pages as they were');

# The same after a checkpoint, then a crash.
$primary->safe_psql('postgres', 'CHECKPOINT');
draw($rounds + 2, 2 * $rounds);
draw_up_to_a_shared_byte();
$primary->stop('immediate');
start_by_clock($primary, $library, $seconds);
is_consistent($primary, 'pages are as they were after a crash');
draw(2 * $rounds + 2, 2 * $rounds + 4);
$replayed = eval { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush')); 1 };
ok($replayed, 'the standby went on');
is_consistent($standby, 'and found no difference');

$primary->stop('immediate');
$standby->promote;
push @ids, $standby->safe_psql('postgres', 'SELECT idem_next_id()');
push @fences, $standby->safe_psql('postgres', q{SELECT idem_lock('promoted', '1 h')});
is_growing('ids grew all the time', @ids);
is_growing('and so did fences', @fences);
$standby->stop;

done_testing();
