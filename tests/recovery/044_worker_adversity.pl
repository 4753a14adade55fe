# The background worker among databases that it cannot sweep, under signals, without worker slots, and under settings that
# would stop it.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @databases = ('postgres', 'noext', 'closed', 'limited', 'We ird', 'renamed', 'template_too', 'template0', 'template1', 'missing');
my $node = start_server('adversity', conf => "fsync = off\nrestart_after_crash = on\nshared_preload_libraries = 'idem'\nidem.sweep_interval = '500ms'\n"
    . 'idem.databases = ' . "'" . join(', ', map { "\"$_\"" } @databases) . "'\n");
sub ask { my ($sql, $database) = @_; return $node->safe_psql($database // 'postgres', $sql) }

# An expired key goes by itself. The database's settings are for the worker alone: the test's own sessions set them back as they connect, not
# in a statement, which a timeout of 1 ms could end.
sub is_swept
{
    my ($database, $seconds) = @_;
    local $ENV{PGOPTIONS} = '-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0 -c search_path=public';
    $node->safe_psql($database, q{SELECT idem_claim('expired', '1 ms')});
    for (1 .. 10 * ($seconds // 8))
    {
        return 1 if $node->safe_psql($database, q{SELECT count(*) FROM idem_keys WHERE key = 'expired'}) eq '0';
        select(undef, undef, undef, 0.1);
    }
    return 0;
}

for my $database (@databases[ 1 .. 6 ])
{
    ask("CREATE DATABASE \"$database\"");
    ask('CREATE EXTENSION idem', $database) unless $database eq 'noext';
}
ask('ALTER DATABASE closed ALLOW_CONNECTIONS false');
ask('ALTER DATABASE limited CONNECTION LIMIT 0');
ask('ALTER DATABASE template_too IS_TEMPLATE true');

ok(is_swept($_), "\"$_\" is swept") for 'postgres', 'limited', 'We ird', 'template_too', 'renamed';
ask('ALTER DATABASE closed ALLOW_CONNECTIONS true');
ok(is_swept('closed'), 'a database that accepts connections again is swept');
ask('CREATE EXTENSION idem', 'noext');
ok(is_swept('noext'), 'a database that gets the extension is swept');
ask('ALTER DATABASE renamed RENAME TO away');
ask('ALTER DATABASE away RENAME TO renamed');
ok(is_swept('renamed'), 'a database that was renamed and renamed back is swept');
ask('DROP DATABASE renamed');
ask('CREATE DATABASE renamed TEMPLATE template_too');
ok(is_swept('renamed'), 'a database that was dropped and made again is swept');

for my $setting ("statement_timeout = '1ms'", "lock_timeout = '1ms'", "search_path = 'nowhere'", 'session_replication_role = replica',
    "default_transaction_isolation = 'serializable'", "idle_in_transaction_session_timeout = '1ms'", 'default_transaction_read_only = on')
{
    ask("ALTER DATABASE \"We ird\" SET $setting");
    ok(is_swept('We ird'), "a database with $setting is swept");
    ask('ALTER DATABASE "We ird" RESET ALL');
    ask('DELETE FROM idem_keys', 'We ird');
}

# A CALL honours this setting of the database's, and so must the worker.
ask("ALTER DATABASE postgres SET idem.sweep_start_delay = '1h'");
ok(!is_swept('postgres', 2), 'a database with a sweep_start_delay of its own is not swept yet');
ask('ALTER DATABASE postgres RESET ALL');
ok(is_swept('postgres'), 'and is when that is taken away');

# As DROP EXTENSION does. A sweeper that has locked idem_keys waits for idem_sweeps, until the session waits for idem_keys; then it wants idem_scopes.
sub waits_for { my ($table) = @_; return "EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '$table'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = 'postgres'))" }
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE idem_sweeps');
$node->poll_query_until('postgres', 'SELECT ' . waits_for('idem_sweeps')) or die 'no sweeper came';
$holder->query_until(qr/waiting/, "\\echo waiting\nDO \$\$ BEGIN WHILE NOT " . waits_for('idem_keys') . " LOOP PERFORM pg_sleep(0.01); END LOOP; PERFORM pg_sleep(0.2); END \$\$;\nCOMMIT;\n");
is(sqlstate($node, 'BEGIN; LOCK TABLE idem_scopes; LOCK TABLE idem_keys'), '00000', 'a session in a deadlock with a sweeper is not the victim');
$holder->quit;
ok(is_swept('postgres'), 'and the next sweep goes on');

my $launcher = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'idem launcher'";
for my $signal (qw(HUP USR1 USR2 INT TERM))
{
    kill $signal, ask($launcher);
    ok(is_swept('postgres'), "sweeping goes on after SIG$signal to the launcher");
}
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($launcher) l");
kill 'KILL', ask($launcher);
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($launcher) l");
ok(is_swept('postgres'), 'sweeping goes on after SIGKILL to the launcher, which restarts the server');

$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 0");
$node->restart;
my $offset = -s $node->logfile;
ok(!is_swept('postgres', 2), 'without a worker slot nothing is swept');
ok($node->log_contains('could not start a sweep of database'), 'and the log says so');
is(ask("SELECT idem_claim('meanwhile')"), 't', 'everything else works');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
ok(is_swept('postgres'), 'with slots it is');

for my $bad ("idem.sweep_interval = '0'", "idem.sweep_interval = '-1'", "idem.sweep_workers = 0", "idem.sweep_pause = '1h'", "idem.databases = 'postgres,,x'")
{
    $node->append_conf('postgresql.conf', $bad);
    $node->reload;
    ok(is_swept('postgres'), "a reload with $bad changes nothing");
}
$node->stop;
done_testing();
