# A statement that only draws an id writes nothing of its own. Its client is told the id once the synchronous standby knows how far
# ids may have gone, and not before.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', streaming => 1);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = '*'});
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
  or die 'the standby does not stream';

sub sees { my ($count, $name, $sql) = @_; ok($primary->poll_query_until('postgres', "SELECT count(*) = $count FROM $sql"), $name) }
my $waiting = q{pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ 'idem_next_id'};

# The first id after a second writes a mark. Those that follow cost no transaction id while the standby keeps up.
is($primary->safe_psql('postgres', <<'SQL'), 't', 'an id below the mark that the standby has takes no transaction id');
SELECT idem_next_id() \g /dev/null
BEGIN;
SELECT idem_next_id() \g /dev/null
SELECT pg_current_xact_id_if_assigned() IS NULL;
SQL

# The standby is gone. Whoever draws waits, also those who find the mark far ahead.
$standby->stop;
$primary->safe_psql('postgres', 'CHECKPOINT');
my @waiters = map { $primary->background_psql('postgres') } 1 .. 2;
foreach my $number (1 .. 2)
{
    $waiters[ $number - 1 ]->query_until(qr/^$/, "SELECT idem_next_id();\n");
    sees($number, "$number wait for the standby", $waiting);
}
like($primary->safe_psql('postgres', 'SET synchronous_commit = local; SELECT idem_next_id()'),
    qr/^\d+$/, 'synchronous_commit = local waits for no standby');
like($primary->safe_psql('postgres', 'BEGIN; SELECT idem_next_id(); ROLLBACK'), qr/^\d+$/, 'nor does a rollback');

$standby->start;
sees(0, 'the standby is back: nobody waits', $waiting);
my @told = sort { $a <=> $b } map { split /\n/, $_->query_safe('SELECT idem_next_id()') } @waiters;
$_->quit foreach @waiters;
$primary->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = ''});
$standby->reload;
is_growing('ids grow across the promotion', @told, $standby->safe_psql('postgres', 'SELECT idem_next_id()'));

$standby->stop;
done_testing();
