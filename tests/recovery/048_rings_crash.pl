# A crash before and after the commit of each step that the sweeper takes on a ring: every key that was acknowledged is still a duplicate,
# expired keys are free, and the next sweep goes on. The steps commit with synchronous_commit off, so a crash may undo them. A claim that
# was acknowledged in a window that was just opened keeps the opening, too.

use strict;
use warnings;

use IPC::Run qw(start);
use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library() or plan skip_all => 'needs a C compiler, for a clock that can be set';

my $node = PostgreSQL::Test::Cluster->new('ring');
$node->init(extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', <<'CONF');
fsync = off
autovacuum = off
checkpoint_timeout = 1h
# Only a commit that is waited for flushes the log.
wal_writer_delay = 10s
CONF
my $seconds = 0;
start_by_clock($node, $library, $seconds);
$node->safe_psql('postgres', 'CREATE EXTENSION idem');
create_ring($node);

# After its last change of the map and before its commit, a step waits for the session that holds the advisory lock.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(1); RETURN NULL; END $$;
SQL
my %changes = (
    open => q{new.state = 'open'},
    fill => q{new.state = 'sealed' AND new.until IS NOT NULL},
    expire => q{new.state = 'expired'},
    empty => q{new.state = 'empty'});

sub set_time { set_clock($node, $seconds = $_[0]) }

sub crash
{
    $node->stop('immediate');
    start_by_clock($node, $library, $seconds);
    return;
}

# Stops the sweep in the step, calls `meanwhile`, and crashes the server.
sub crash_before_commit_of
{
    my ($step, $meanwhile) = @_;
    $node->safe_psql('postgres', "CREATE TRIGGER stop AFTER UPDATE ON idem_ring_1 FOR EACH ROW WHEN ($changes{$step}) EXECUTE FUNCTION stop()");
    my $guard = $node->background_psql('postgres', on_error_stop => 0);
    $guard->query_safe('SELECT pg_advisory_lock(1)');
    my $sweep = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CALL idem_sweep()' ], '>', \my $out, '2>', \my $err);
    ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'}), "$step: the sweeper has come to the step");
    $meanwhile->() if $meanwhile;
    crash();
    eval { $guard->quit };
    $sweep->finish;
    $node->safe_psql('postgres', 'DROP TRIGGER stop ON idem_ring_1');
    return;
}

# They expire an hour after their claim.
my %keys;
sub claims
{
    my ($name, $count) = @_;
    is(claim_keys($node, $name, $count), $count, "keys \"$name\" are acknowledged");
    $keys{$name} = $count;
    return;
}

sub are_free
{
    my ($of, $count, $name) = @_;
    is( $node->safe_psql('postgres',
            "BEGIN; SELECT count(*) FROM idem_claim_many(ARRAY(SELECT '$of-' || i FROM generate_series(1, $count) i), scope => 'ring'); ROLLBACK"),
        $count, "$name: expired keys are free");
    return;
}

set_time(100);
claims('first', 2000);
crash();
are_kept($node, 'after the first claims', \%keys);

set_time(1801);
crash_before_commit_of('open');
is(states($node), 'open empty empty empty', 'open, before its commit: as before');
are_kept($node, 'open, before its commit', \%keys);

# The opening has committed without being flushed; the commits of the claims flush it.
crash_before_commit_of('fill', sub { claims('early', 50) });
like(states($node), qr/^sealed\+? open empty empty$/, 'fill, before its commit: the opening is kept by the claims after it');
are_kept($node, 'fill, before its commit', \%keys);

claims('second', 1500);
sweep($node);
is(states($node), 'sealed+ open empty empty', 'the next sweep fills the filter');
crash();
like(states($node), qr/^sealed\+? open empty empty$/, 'fill, after its commit');
are_kept($node, 'fill, after its commit', \%keys);
sweep($node);

set_time(3650);
sweep($node);
crash();
like(states($node), qr/^sealed\+ (open empty|sealed\+? open) empty$/, 'open and fill, after their commits');
are_kept($node, 'open and fill, after their commits', \%keys);
sweep($node);
claims('third', 100);
is(states($node), 'sealed+ sealed+ open empty', 'the next sweep has opened the window, if a crash undid that');

set_time(5000);
my $expired = delete $keys{first};
crash_before_commit_of('expire');
is(states($node), 'sealed+ sealed+ open empty', 'expire, before its commit: as before');
are_kept($node, 'expire, before its commit', \%keys);
are_free('first', $expired, 'expire, before its commit');

crash_before_commit_of('empty', sub { claims('late', 20) });
like(states($node), qr/^expired\+? sealed\+ open empty$/, 'empty, before its commit: the window waits to be emptied');
are_kept($node, 'empty, before its commit', \%keys);
are_free('first', $expired, 'empty, before its commit');

sweep($node);
is(states($node), 'empty sealed+ open empty', 'the next sweep empties it');
crash();
like(states($node), qr/^(empty|expired\+) sealed\+ open empty$/, 'empty, after its commit');
are_kept($node, 'empty, after its commit', \%keys);
are_free('first', $expired, 'empty, after its commit');
sweep($node);

# A window that was emptied is used again.
set_time(5600);
sweep($node);
is(states($node), 'open empty sealed+ empty', 'the window that was emptied takes new keys');
is(claim_keys($node, 'first', $expired), $expired, 'among them those that it had before');
crash();
delete @keys{qw(early second)};
are_kept($node, 'claims in a window that is used again', { %keys, first => $expired });

set_time(5600 + 7200);
sweep($node);
is(states($node), 'empty open empty empty', 'in the end all windows are empty but the open one');
check_indexes($node, $_, "the indexes of $_ agree with the table") foreach map { "idem_ring_1_$_" } 0 .. 3;

$node->stop;
done_testing();
