# A crash in the midst of writing pages: one part of a page on the disk is new, the other old. Each change of idem's pages since the last
# checkpoint began with an image of the whole page, so recovery makes them whole.

use strict;
use warnings;

use IdemCluster;
use IdemLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = srand($ENV{IDEM_SEED} // time);
note("IDEM_SEED=$seed");

my $node = start_server('torn', conf => <<'CONF');
full_page_writes = on
checkpoint_timeout = 1h
max_wal_size = 10GB
autovacuum_naptime = 1s
deadlock_timeout = 100ms
log_statement = none
CONF
prepare_load($node);
$node->safe_psql('postgres', 'CREATE EXTENSION pageinspect');

my $page_size = 8192;

sub on_disk
{
    my ($page) = @_;
    open my $file, '<:raw', $page->{path} or die "could not open \"$page->{path}\": $!";
    sysseek($file, $page->{offset}, 0);
    sysread($file, my $bytes, $page_size) // die "could not read \"$page->{path}\": $!";
    return $bytes . "\0" x ($page_size - length $bytes);
}

# Every page of idem's relations as it is in memory, and would be written now; those that were changed since the last checkpoint, and
# not written since. (A checkpoint writes what is changed while it runs.)
sub changed_pages
{
    my @pages;
    foreach my $line (split /\n/, $node->safe_psql('postgres', <<'SQL'))
SELECT r.relname, pg_relation_filepath(r.oid), block, encode(page, 'hex')
FROM pg_class r, generate_series(0, pg_relation_size(r.oid) / 8192 - 1) AS block, LATERAL (SELECT get_raw_page(r.oid::regclass::text, block::int) AS page) p,
     pg_control_checkpoint() c
WHERE (r.relname LIKE 'idem\_%') AND r.relkind IN ('r', 'i', 'S') AND (page_header(page)).lsn > c.redo_lsn
SQL
    {
        my ($relation, $path, $block, $hex) = split /\|/, $line;
        push @pages, { relation => $relation, path => $node->data_dir . "/$path", offset => $block * $page_size, new => pack('H*', $hex) };
    }
    # What is written must be in the log before.
    $node->safe_psql('postgres', 'CREATE TEMP TABLE t (); CREATE TABLE flushed (); DROP TABLE flushed');
    return grep { on_disk($_) ne $_->{new} } @pages;
}

# The same when the high-water marks are among them, which do not move with each call.
sub changed_pages_and_marks
{
    my @pages;
    for (1 .. 50)
    {
        @pages = changed_pages();
        last if 2 == grep { $_->{relation} =~ /_high_water$/ } @pages;
        sleep 0.2;
    }
    return @pages;
}

# Writes one part of each page, in sectors, as a disk does. Gives the names of the relations in which that made a difference.
sub tear
{
    my (@pages) = @_;
    my %torn;
    foreach my $page (@pages)
    {
        my $old = on_disk($page);
        my $half = rand() < 0.5 ? $page_size / 2 : 512 * (1 + int rand 15);
        my @parts = ([ 0, $half ], [ $half, $page_size - $half ]);
        my ($from, $length) = @{ $parts[ int rand 2 ] };
        my $page_torn = $old;
        substr($page_torn, $from, $length) = substr($page->{new}, $from, $length);
        next if $page_torn eq $old || $page_torn eq $page->{new};
        open my $file, '+<:raw', $page->{path} or die "could not open \"$page->{path}\": $!";
        sysseek($file, $page->{offset}, 0);
        syswrite($file, $page_torn) == $page_size or die "could not write \"$page->{path}\": $!";
        close $file;
        $torn{ $page->{relation} }++;
    }
    return %torn;
}

my %all;
my $clients = 4;
foreach my $round (1 .. 3)
{
    my $name = "round $round";
    my $load = start_load($node, $round, $clients, checkpoints => 0);
    is_loaded($load, 500) or fail("$name: there was work");
    $node->safe_psql('postgres', 'CHECKPOINT');
    is_loaded($load, 2000) or fail("$name: there was work after the checkpoint");
    my @pages = changed_pages_and_marks();
    kill_postmaster($node);
    my $told = finish_load($load);
    my %torn = tear(@pages);
    note("$name: " . join(', ', map { "$_ $torn{$_}" } sort keys %torn));
    $all{$_} += $torn{$_} foreach keys %torn;
    $node->start;
    is_intact($node, $told, $name);
    has_clean_relations($node, $name);
}
foreach my $relation (qw(idem_keys idem_keys_pkey idem_locks idem_tokens idem_counters idem_fence_high_water idem_id_high_water))
{
    ok($all{$relation}, "pages of $relation were torn");
}
unlike(slurp_file($node->logfile), qr/PANIC|invalid page|page verification failed/, 'no page stayed torn');

$node->stop;
done_testing();
