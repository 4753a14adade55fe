# Whatever the functions write is replayed to the very pages that they left: the server compares them, on a standby and after a crash.
# Then the primary is lost under load, and on its synchronous standby nothing is missing.

use strict;
use warnings;

use IdemCluster;
use IdemLoad;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = srand($ENV{IDEM_SEED} // time);
note("IDEM_SEED=$seed");

my $primary = start_server('primary', streaming => 1, conf => <<'CONF');
wal_consistency_checking = 'all'
wal_receiver_status_interval = 1s
shared_preload_libraries = 'idem'
shared_buffers = 1MB
autovacuum_naptime = 1s
deadlock_timeout = 100ms
log_statement = none
max_wal_size = 2GB
CONF
prepare_load($primary);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = '*'});
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'})
  or die 'the standby does not stream';

my $clients = 4;

sub is_consistent
{
    my ($node, $name) = @_;
    unlike(slurp_file($node->logfile), qr/inconsistent page found|PANIC|invalid page|checksum/, $name);
    return;
}

# The primary dies under load, and is back after having replayed all of it.
my $load = start_load($primary, 1, $clients);
ok(is_loaded($load, 2000), 'there was work');
kill_postmaster($primary);
$primary->start;
my $told = finish_load($load);
is_consistent($primary, 'pages of the primary are as they were, after a crash');
is_intact($primary, $told, 'on the primary');
has_clean_relations($primary, 'on the primary');
ok(eval { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush')); 1 }, 'the standby has replayed all');
is_consistent($standby, 'and its pages are those of the primary');

# What sweeping and vacuuming write, too.
$primary->safe_psql('postgres', $_)
  foreach q{SELECT idem_claim_many(ARRAY(SELECT 'expiring ' || n FROM generate_series(1, 5000) AS n), '1 ms')},
  q{DELETE FROM effect WHERE key LIKE 'expiring%'}, 'CALL idem_sweep()', 'VACUUM', 'VACUUM (FREEZE) idem_keys, idem_locks, idem_tokens';

# It dies for good, and the standby goes on.
$load = start_load($primary, 2, $clients);
ok(is_loaded($load, 2000), 'there was work again');
kill_postmaster($primary);
$standby->promote;
$told = finish_load($load);
$standby->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = ''});
$standby->reload;
is_consistent($standby, 'nothing else did the standby find');
is_intact($standby, $told, 'on the promoted standby');
has_clean_relations($standby, 'on the promoted standby');

$standby->stop;
done_testing();
