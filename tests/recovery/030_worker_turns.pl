# The background worker when there is much to do: how many databases are swept at a time, whose turn it is, what happens when the
# server has no room for another process, when sweeps fail, and when one outlives the launcher that started it.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('worker_turns');
$node->init;
# Room for the launcher and two more.
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'idem'
idem.sweep_interval = 200ms
max_worker_processes = 3
max_logical_replication_workers = 0
log_min_messages = debug1
autovacuum = off
CONF
$node->start;
foreach my $database ('one', 'two', 'three')
{
    $node->safe_psql('postgres', "CREATE DATABASE $database");
    $node->safe_psql($database, 'CREATE EXTENSION idem');
    $node->safe_psql($database, <<'SQL');
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON idem_sweeps FOR EACH ROW EXECUTE FUNCTION slow();
ALTER TABLE idem_sweeps DISABLE TRIGGER slow;
SQL
}

sub configure
{
    my (%settings) = @_;
    $node->safe_psql('postgres', "ALTER SYSTEM SET $_ = '$settings{$_}'") foreach keys %settings;
    $node->reload;
}

sub expire
{
    my ($database, $number) = @_;
    $node->safe_psql($database, <<SQL);
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
SELECT now(), now(), 1, 'c', '', gen_random_uuid() FROM generate_series(1, $number) AS n;
SQL
}

sub is_swept
{
    my ($database, $name) = @_;
    ok($node->poll_query_until($database, q{SELECT count(*) = 0 FROM idem_keys WHERE expires_at < clock_timestamp()}), $name);
}

my $waits_as = $node->pg_version >= 17 ? 'IdemLauncherMain' : 'Extension';
ok($node->poll_query_until('postgres', "SELECT wait_event = '$waits_as' FROM pg_stat_activity WHERE backend_type = 'idem launcher'"), 'the launcher waits under its name');

my $sweepers = q{FROM pg_stat_activity WHERE backend_type = 'idem sweep'};

# Its sweeps last from here on: at least 200 ms for each batch, and for each table.
sub slow_down { $node->safe_psql($_, 'ALTER TABLE idem_sweeps ENABLE TRIGGER slow') foreach @_ }
sub speed_up { $node->safe_psql($_, 'ALTER TABLE idem_sweeps DISABLE TRIGGER slow') foreach @_ }

sub wait_for_sweep
{
    my ($database) = @_;
    $node->poll_query_until('postgres', "SELECT count(*) = 1 $sweepers AND datname = '$database'") or die "no sweep of \"$database\"";
}

# Waits until a sweep that lasts has come so many batches further.
sub wait_for_batches
{
    my ($database, $number) = @_;
    my $batches = q{SELECT batches FROM idem_sweep_progress WHERE table_name = 'idem_keys'};
    my $now = $node->safe_psql($database, $batches) || 0;
    $node->poll_query_until($database, "SELECT ($batches) >= $now + $number") or die "no progress in \"$database\"";
}

sub log_since { my ($offset) = @_; return slurp_file($node->logfile, $offset) }

# --- A batch -----------------------------------------------------------------------------------------------------------------

expire('one', 20000);
configure('idem.databases' => 'one', 'idem.sweep_interval' => '1h');
is_swept('one', 'a database is swept');
$node->wait_for_log(qr/sweep of database "one" ended \(finished\)/);
is( $node->safe_psql('one', q{SELECT rows_deleted, batches >= 100 FROM idem_sweep_progress WHERE table_name = 'idem_keys'}),
    '20000|t', 'in batches of 200');
configure('idem.sweep_interval' => '200ms');

# --- One at a time -------------------------------------------------------------------------------------------------------------

slow_down('one');
expire('one', 100000);
wait_for_sweep('one');
wait_for_batches('one', 2);
expire('two', 1);
configure('idem.databases' => 'one,two');
wait_for_batches('one', 8);
is($node->safe_psql('postgres', "SELECT string_agg(datname, ',') $sweepers"), 'one', 'one database is swept at a time');
is($node->safe_psql('two', 'SELECT count(*) FROM idem_keys'), '1', 'another waits for its turn');
configure('idem.sweep_workers' => 2);
is_swept('two', 'or gets a process of its own, when it may');
is($node->safe_psql('postgres', "SELECT count(*) $sweepers AND datname = 'one'"), '1', 'while the first is swept');

# --- No room -------------------------------------------------------------------------------------------------------------------

$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
configure('idem.databases' => 'one', 'idem.sweep_interval' => '800ms');
$node->restart;
wait_for_sweep('one');
my $offset = -s $node->logfile;
expire('two', 1);
configure('idem.databases' => 'one,two');
$node->wait_for_log(qr/(?:could not start a sweep of database "two".*?){6}/s, $offset);
my $log = log_since($offset);
is_deeply([ ($log =~ /The next attempt is in (\d+) ms/g)[ 0 .. 4 ] ], [ 100, 200, 400, 800, 800 ], 'without room, it is tried less and less often');
is(() = $log =~ /LOG:  could not start a sweep of database "two"/g, 1, 'and said once');
is($node->safe_psql('two', 'SELECT count(*) FROM idem_keys'), '1', 'it is not swept');
speed_up('one');
is_swept('two', 'until there is room');
is_swept('one', 'beside the other');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;

# --- Whose turn it is ------------------------------------------------------------------------------------------------------------

# Each sweep lasts longer than the interval, so that two of them are always due.
slow_down('one', 'two', 'three');
configure('idem.databases' => 'one,two,three', 'idem.sweep_interval' => '100ms', 'idem.sweep_workers' => 1);
wait_for_sweep('one');
expire('three', 1);
is_swept('three', 'every database has its turn, however long the others take');

# --- A locked table --------------------------------------------------------------------------------------------------------------

my $locker = $node->background_psql('two');
$locker->query_safe('BEGIN; LOCK TABLE idem_keys IN ACCESS EXCLUSIVE MODE');
$node->poll_query_until('postgres', "SELECT count(*) = 1 $sweepers AND datname = 'two' AND wait_event_type = 'Lock'")
  or die 'no sweep waits for the lock';
expire('three', 1);
is_swept('three', 'a locked table keeps no other database from being swept');
$locker->query_safe('COMMIT');
$locker->quit;

# --- A locked database -----------------------------------------------------------------------------------------------------------

my $renamer = $node->background_psql('postgres');
$renamer->query_safe('BEGIN; ALTER DATABASE two RENAME TO renamed');
# Between the two of them it was the other's turn.
for my $nth (1, 2)
{
    expire('three', 1);
    is_swept('three', "a locked database keeps no other from being swept ($nth)");
}
$renamer->query_safe('ROLLBACK');
$renamer->quit;

# --- Failures --------------------------------------------------------------------------------------------------------------------

speed_up('one', 'two', 'three');
$node->safe_psql('two', 'ALTER TABLE idem_keys SET UNLOGGED');
$offset = -s $node->logfile;
configure('idem.databases' => 'two');
$node->wait_for_log(qr/(?:sweep of database "two" ended \(failed\).*?){4}/s, $offset);
my @waits = log_since($offset) =~ /sweep of database "two" ended \(failed\), the next is due in (\d+) ms/g;
is_deeply([ map { $waits[$_] / $waits[0] } 0 .. 3 ], [ 1, 2, 4, 8 ], 'what fails is tried less and less often');
$node->safe_psql('two', 'ALTER TABLE idem_keys SET LOGGED');
$offset = -s $node->logfile;
$node->wait_for_log(qr/sweep of database "two" ended \(finished\), the next is due in 100 ms/, $offset);
pass('and at the interval when it works again');

# --- A database whose DROP was interrupted -----------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'three'});
$offset = -s $node->logfile;
configure('idem.databases' => 'two,three');
$node->wait_for_log(qr/database "three" in idem.databases does not accept connections/, $offset);
$node->wait_for_log(qr/(?:sweep of database "two" ended.*?){5}/s, -s $node->logfile);
$log = log_since($offset);
is(() = $log =~ /database "three" in idem.databases does not accept connections/g, 1, 'a database whose DROP was interrupted is logged once');
unlike($log, qr/FATAL/, 'and left alone');

# --- A sweep that outlives its launcher ----------------------------------------------------------------------------------------------

slow_down('one', 'two');
expire('one', 100000);
configure('idem.databases' => 'one');
wait_for_sweep('one');
# The one of "two" does not end by itself.
$node->safe_psql('two', 'CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN LOOP PERFORM pg_sleep(60); END LOOP; END $$');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'idem launcher'});
configure('idem.databases' => 'two');
wait_for_sweep('two');
speed_up('one');
is_swept('one', 'a sweep goes on without its launcher');
$node->poll_query_until('postgres', "SELECT count(*) = 0 $sweepers AND datname = 'one'") or die 'the sweep does not end';
$offset = -s $node->logfile;
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $sweepers AND datname = 'two'");
$node->wait_for_log(qr/sweep of database "two" ended/, $offset);
like(log_since($offset), qr/sweep of database "two" ended \(terminated\)/, 'and does not report in the place of another');

$node->stop('fast');
done_testing();
