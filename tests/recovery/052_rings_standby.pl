# A ring on a hot standby: keys in sealed and open windows are duplicates, what would write is refused. Promoted, it goes on with the filter
# as the primary had it.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', streaming => 1, conf => <<'CONF');
fsync = off
autovacuum = off
wal_consistency_checking = 'all'
max_prepared_transactions = 2
CONF
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# What a sweep did is not flushed when it returns.
sub catch_up
{
    $primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'idem', 'all before this')});
    $primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
    return;
}

# As are_kept, in one session that stays and so remembers the ring, and by single calls: a standby grants nothing.
my $reader;
sub is_known
{
    my ($name, $keys) = @_;
    my %wrong;
    foreach my $of (sort keys %$keys)
    {
        my $sql = "SELECT count(*) FROM generate_series(1, $keys->{$of}) i WHERE (SELECT state FROM idem_lookup('$of-' || i, 'ring')) IS DISTINCT FROM 'completed'"
          . " OR idem_try_claim('$of-' || i, scope => 'ring') <> 'completed' OR idem_claim('$of-' || i, scope => 'ring')";
        my $wrong = join ' ', map { $_->($sql) } sub { $reader->query_safe($_[0]) }, sub { $standby->safe_psql('postgres', $_[0]) };
        $wrong{$of} = $wrong if $wrong ne '0 0';
    }
    is_deeply(\%wrong, {}, "on the standby, $name: every key is known");
    return;
}

my $keys = fill_ring($primary, 'postgres', 6);
catch_up();
$reader = $standby->background_psql('postgres', on_error_stop => 0);
is_known('after two rotations', $keys);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM idem_claim_many('{first-1,second-1,third-1}', scope => 'ring')}), 0, 'a batch of them, too');
is(states($standby), 'sealed+ sealed+ open empty empty empty', 'the standby shows the windows');
foreach my $sql (
    q{SELECT idem_claim('absent', scope => 'ring')}, q{SELECT idem_try_claim('absent', scope => 'ring')},
    q{SELECT count(*) FROM idem_claim_many('{first-1,absent}', scope => 'ring')}, q{SELECT idem_forget('first-1', 'ring')},
    q{SELECT idem_ring_create('another', '1 h')}, q{SELECT idem_ring_drop('events')}, q{SELECT idem_ring_rebuild_filter('events')},
    q{SELECT idem_scope_set('another', ring => 'events')}, q{SELECT idem_scope_reset('ring', 'ring')}, 'CALL idem_sweep()')
{
    is(sqlstate($standby, "SET statement_timeout = '20s'; $sql"), '25006', "refused on the standby: $sql");
}
is($standby->safe_psql('postgres', q{SELECT count(*) FROM idem_lookup('absent', 'ring')}), 0, 'an absent key is not known');

# A session that knows the ring learns of each change.
rotate($primary);
is(claim_keys($primary, 'fourth', 100), 100, 'keys "fourth" are claimed');
$keys->{fourth} = 100;
catch_up();
is_known('after another rotation', $keys);
$primary->safe_psql('postgres', 'REINDEX INDEX idem_ring_1_filter');
catch_up();
is_known('after REINDEX of the filter', $keys);
is(states($standby), 'sealed sealed sealed open empty empty', 'REINDEX of the filter empties it on the standby, too');
sweep($primary);
catch_up();
is_known('when the filter was filled again', $keys);
$primary->safe_psql('postgres', q{INSERT INTO idem_ring_1_0 SELECT (jsonb_populate_record(k, '{"key": "arrived-1"}')).* FROM ONLY idem_ring_1_0 k WHERE key = 'first-1'});
$keys->{arrived} = 1;
catch_up();
is_known('after a row has arrived by INSERT', $keys);
sweep($primary);

# The primary alone loses a sector of the filter's head, and then a row arrives in a window that the standby's head covers.
my $path = $primary->data_dir . '/' . $primary->safe_psql('postgres', q{SELECT pg_relation_filepath('idem_ring_1_filter')});
$primary->stop;
open my $file, '+<:raw', $path or die "could not open \"$path\": $!";
seek $file, 512, 0;
print $file "\xff" x 512;
close $file or die "could not write \"$path\": $!";
$primary->start;
is(states($primary), 'sealed sealed sealed open empty empty', 'the primary reads no head');
is(states($standby), 'sealed+ sealed+ sealed+ open empty empty', 'the standby has the head as it was');
$primary->safe_psql('postgres', q{INSERT INTO idem_ring_1_0 SELECT (jsonb_populate_record(k, '{"key": "stray-1"}')).* FROM ONLY idem_ring_1_0 k WHERE key = 'first-1'});
$keys->{stray} = 1;
catch_up();
is_known('after a row has arrived while the head was damaged on the primary', $keys);
$primary->safe_psql('postgres', 'REINDEX INDEX idem_ring_1_filter');
sweep($primary);

# The primary goes down. One key is prepared in a window that is sealed by then; its last rotation's commit was not waited for, but
# the claim after it was.
$primary->safe_psql('postgres', q{BEGIN; SELECT idem_claim('prepared', scope => 'ring'); PREPARE TRANSACTION 'holder'});
rotate($primary);
is(states($primary), 'sealed+ sealed+ sealed+ sealed open empty', 'a window that is sealed and held by a prepared transaction is not in the filter');
is(claim_keys($primary, 'fifth', 100), 100, 'keys "fifth" are claimed');
$keys->{fifth} = 100;
catch_up();
is_known('before the promotion', $keys);
$reader->quit;
$primary->stop('immediate');
$standby->promote;

is(states($standby), 'sealed+ sealed+ sealed+ sealed open empty', 'promoted: the filter covers what it did on the primary');
are_kept($standby, 'promoted', $keys);
is($standby->safe_psql('postgres', q{SELECT idem_try_claim('prepared', scope => 'ring')}), 'in_flight', 'promoted: the prepared transaction holds its key');
is(claim_keys($standby, 'new', 100), 100, 'promoted: new keys are granted');
$keys->{new} = 100;
$standby->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
is($standby->safe_psql('postgres', q{SELECT idem_try_claim('prepared', scope => 'ring')}), 'completed', 'and then is done');
sweep($standby);
is(states($standby), 'sealed+ sealed+ sealed+ sealed+ open empty', 'promoted: the sweeper goes on');
are_kept($standby, 'promoted, swept', $keys);
unlike(slurp_file($standby->logfile), qr/inconsistent page found|PANIC/, 'the standby found the pages as they were logged');
check_indexes($standby, $_, "the indexes of $_ agree with the table") foreach map { "idem_ring_1_$_" } 0 .. 5;

$standby->stop;
done_testing();
