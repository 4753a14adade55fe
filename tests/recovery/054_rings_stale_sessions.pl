# Sessions remember which windows a ring's filter covers, and learn of changes when a transaction commits; the filter's pages change at once
# and stay as they are after a rollback. Whatever such a transaction does, and however it ends: no session takes a key for absent that is
# stored in a sealed window.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\n");
my $keys = fill_ring($node);
my ($claimer, $operator) = map { $node->background_psql('postgres', on_error_stop => 0) } 1, 2;

# Copies of a row under other names.
sub insert
{
    my ($window, $from, $name, $count) = @_;
    return "INSERT INTO idem_ring_1_$window SELECT (jsonb_populate_record(k, jsonb_build_object('key', '$name-' || i))).*"
      . " FROM ONLY idem_ring_1_$window k, generate_series(1, $count) i WHERE k.key = '$from-1'";
}

# --- A rebuilding that makes the filter larger ----------------------------------------------------------------------------------------

# Rows arrive unseen, as the document of idem_ring_rebuild_filter has it: so many that the filter has to grow.
$node->safe_psql('postgres', 'ALTER TABLE idem_ring_1_1 DISABLE TRIGGER idem_ring_row_arrived; '
      . insert(1, 'second', 'unseen', 4000) . '; ALTER TABLE idem_ring_1_1 ENABLE ALWAYS TRIGGER idem_ring_row_arrived');
are_kept($claimer, 'before the rebuilding', $keys);
$operator->query_safe(q{BEGIN; SELECT idem_ring_rebuild_filter('events')});
are_kept($claimer, 'a rebuilding that is open', $keys);
$operator->query_safe('ROLLBACK');
are_kept($claimer, 'a rebuilding that was rolled back', $keys);
$operator->query_safe(q{SELECT idem_ring_rebuild_filter('events')});
$keys->{unseen} = 4000;
are_kept($claimer, 'a rebuilding that has committed', $keys);

# --- A window that was emptied, and was not ----------------------------------------------------------------------------------------------

$operator->query_safe(q{BEGIN; TRUNCATE idem_ring_1_0; SELECT idem_ring_rebuild_filter('events'); ROLLBACK});
are_kept($claimer, 'TRUNCATE and a rebuilding that were rolled back', $keys);
are_kept($node, 'TRUNCATE and a rebuilding that were rolled back: a new session', $keys);
$node->safe_psql('postgres', q{SELECT idem_ring_rebuild_filter('events')});
are_kept($claimer, 'rebuilt', $keys);

# --- Rows that arrive after others were taken back ----------------------------------------------------------------------------------------

$node->safe_psql('postgres', insert(0, 'first', 'arrived', 10));
$keys->{arrived} = 10;
$operator->query_safe(q{BEGIN; SELECT idem_ring_rebuild_filter('events'); ROLLBACK});
my $late = $node->background_psql('postgres', on_error_stop => 0);
are_kept($late, 'a rebuilding that was rolled back', $keys);
$operator->query_safe('BEGIN; ' . insert(0, 'first', 'taken back', 10) . '; ROLLBACK');
$operator->query_safe(insert(0, 'first', 'again', 10));
$keys->{again} = 10;
are_kept($_, 'rows that arrived after others were taken back', $keys) foreach $late, $claimer;

# --- A trigger that is away when the sweeper comes --------------------------------------------------------------------------------------

sub wal_of_a_sweep
{
    my $before = $node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_wal_insert_lsn()');
    $node->safe_psql('postgres', 'CALL idem_sweep()');
    return $node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$before'");
}

$node->safe_psql('postgres', 'CALL idem_sweep(); ALTER TABLE idem_ring_1_0 DISABLE TRIGGER idem_ring_row_arrived');
wal_of_a_sweep();
is($node->safe_psql('postgres', q{SELECT count(*) FROM idem_rings WHERE number = 0 AND until IS NOT NULL AND false_positives IS NULL}), 1,
    'a window whose trigger is disabled is taken out of the filter');
cmp_ok(wal_of_a_sweep(), '<', 8192, 'and the next sweep does not fill it in again');
$node->safe_psql('postgres', insert(0, 'first', 'unseen-by-the-sweep', 10) . '; ALTER TABLE idem_ring_1_0 ENABLE ALWAYS TRIGGER idem_ring_row_arrived');
$keys->{'unseen-by-the-sweep'} = 10;
are_kept($_, 'the trigger is back', $keys) foreach $late, $claimer;
$node->safe_psql('postgres', 'CALL idem_sweep()');
is($node->safe_psql('postgres', q{SELECT count(*) FROM idem_rings WHERE state = 'sealed' AND false_positives IS NULL}), 0, 'all sealed windows are in the filter');
are_kept($_, 'the trigger is back, and the filter is filled', $keys) foreach $late, $claimer;

$_->quit foreach $claimer, $operator, $late;
$node->stop;
done_testing();
