# The background worker: it sweeps the databases on its list and no others, comes back to those that come back, stands in
# nobody's way, does not fill the log, and waits for a standby's promotion.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('worker');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'idem'
idem.databases = 'swept, "Odd Name", later, empty'
idem.sweep_interval = 200ms
autovacuum = off
log_statement = none
wal_receiver_status_interval = 1s
CONF
$node->start;

sub expire
{
    my ($database, @keys) = @_;
    $node->safe_psql($database, "SELECT idem_claim('$_', '1 ms')") foreach @keys;
}

# Waits until a later sweep than those that were there has come to its end.
sub is_swept
{
    my ($database, $name, $server) = @_;
    ok( ($server // $node)->poll_query_until(
            $database, q{SELECT count(*) = 0 FROM idem_keys WHERE expires_at < clock_timestamp()}),
        $name);
}

sub sweeps_logged { my ($what) = @_; return () = slurp_file($node->logfile) =~ /$what/g }

# Waits until the launcher has attended to every database that many times more, which "later sweeps of swept" tells.
sub some_rounds
{
    my $now = $node->safe_psql('swept', 'SELECT clock_timestamp()');
    foreach (1 .. 3)
    {
        $node->poll_query_until('swept', "SELECT min(started_at) > '$now' FROM idem_sweep_progress") or die 'no sweep';
        $now = $node->safe_psql('swept', 'SELECT clock_timestamp()');
    }
}

# --- Which databases --------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'swept', '"Odd Name"', 'aside', 'empty';
$node->safe_psql($_, 'CREATE EXTENSION idem') foreach 'swept', 'Odd Name', 'aside';
expire($_, 'a', 'b') foreach 'swept', 'Odd Name', 'aside';
is_swept('swept', 'a database on the list is swept');
is_swept('Odd Name', 'whatever its name');
expire('swept', 'c');
is_swept('swept', 'and swept again');
is($node->safe_psql('aside', 'SELECT count(*) FROM idem_keys'), '2', 'another is not');
is( $node->safe_psql('postgres', q{SELECT count(*), count(datname) FROM pg_stat_activity WHERE backend_type = 'idem launcher'}),
    '1|0', 'there is one launcher, connected to no database');

# --- Extension absent, then there; a foreign table; an error that stays --------------------------------------------------------------

some_rounds();
is(sweeps_logged(qr/"empty" in idem.databases does not have the extension/), 1, 'a database without the extension is logged once');
is(sweeps_logged(qr/"later" in idem.databases does not exist/), 1, 'so is one that does not exist');
$node->safe_psql('empty', 'CREATE EXTENSION idem SCHEMA public');
expire('empty', 'a');
is_swept('empty', 'and swept when it has the extension');

# A table that the sweep needs is the extension's no more.
$node->safe_psql('empty', 'ALTER EXTENSION idem DROP TABLE idem_sweeps');
$node->wait_for_log(qr/"idem_sweeps" of extension "idem" is not the one that was installed/);
some_rounds();
is(sweeps_logged(qr/"idem_sweeps" of extension "idem" is not the one that was installed/), 1, 'a table that is not the one that was installed is logged once');
$node->safe_psql('empty', 'ALTER EXTENSION idem ADD TABLE idem_sweeps');
expire('empty', 'b');
is_swept('empty', 'and swept when it is again');

$node->safe_psql('empty', 'ALTER TABLE idem_keys SET UNLOGGED');
my $refused = qr/ERROR:  "idem_keys" of extension "idem" is not the one/;
$node->wait_for_log($refused);
some_rounds();
is(sweeps_logged($refused), 1, 'an error is logged once');
expire('swept', 'd');
is_swept('swept', 'and keeps no other database from being swept');
$node->safe_psql('empty', 'ALTER TABLE idem_keys SET LOGGED');
expire('empty', 'c');
is_swept('empty', 'it is tried again');
$node->safe_psql('empty', 'ALTER TABLE idem_keys SET UNLOGGED');
$node->poll_query_until('postgres', 'SELECT true') until sweeps_logged($refused) == 2;
pass('the same error after a success is news');
$node->safe_psql('empty', 'ALTER TABLE idem_keys SET LOGGED');

# --- In nobody's way --------------------------------------------------------------------------------------------------------

foreach my $round (1 .. 5)
{
    $node->safe_psql('postgres', 'DROP DATABASE swept');
    $node->safe_psql('postgres', 'CREATE DATABASE swept');
    $node->safe_psql('swept', 'CREATE EXTENSION idem');
    expire('swept', 'a');
    is_swept('swept', "a database that is dropped and made again is swept again ($round)");
}

# A sweep that would last for long; it is at it while somebody wants the database for himself.
$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = 'swept'});
$node->safe_psql('swept', <<'SQL');
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
SELECT now(), now(), 1, 'c', '', md5(n::text) FROM generate_series(1, 400000) AS n;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON idem_sweeps FOR EACH ROW EXECUTE FUNCTION slow();
SQL
$node->reload;
my $running = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'idem sweep' AND datname = 'swept'};
foreach my $statement (
    'CREATE DATABASE copy TEMPLATE swept',
    'ALTER DATABASE swept RENAME TO renamed',
    'ALTER DATABASE renamed RENAME TO swept',
    'DROP DATABASE swept')
{
    $node->poll_query_until('postgres', $running) or die 'there is no sweep' unless $statement =~ /renamed RENAME/;
    is(sqlstate($node, $statement), '00000', "while it is swept: $statement");
}
isnt($node->safe_psql('copy', q{SELECT count(*) FROM idem_keys}), '0', 'it was not through');

# --- Reload, SIGTERM --------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = 'aside'});
$node->reload;
is_swept('aside', 'a database that is put on the list is swept');
is(sqlstate($node, q{ALTER SYSTEM SET idem.databases = 'a b'}), '22023', 'what is no list is refused');

# More names than there is room for beside those that went; the last one's place is taken until a sweep has ended that is still running.
sub set_databases
{
    my (@names) = @_;
    $node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = '} . join(',', @names) . q{'});
    $node->reload;
}
set_databases(map { "gone$_" } 1 .. 64);
$node->wait_for_log(qr/database "gone64" in idem.databases does not exist/);
set_databases(map({ "absent$_" } 1 .. 63), 'aside');
expire('aside', 'e');
is_swept('aside', 'a list of new names takes the place of the old one');
set_databases('copy');
$node->poll_query_until('copy', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'idem sweep' AND datname = 'copy'})
  or die 'there is no sweep';
set_databases(map({ "absent$_" } 1 .. 63), 'aside');
expire('aside', 'f');
$node->safe_psql('copy', 'DROP TRIGGER slow ON idem_sweeps');
is_swept('aside', 'also the one that finds no place before a sweep has ended');
my $end = -s $node->logfile;
set_databases(map { "absent$_" } 1 .. 65);
$node->wait_for_log(qr/some databases in idem.databases are not swept/, $end);
pass('names beyond the 64th are told');
set_databases('aside');

my $launcher = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'idem launcher'};
my $pid = $node->safe_psql('postgres', $launcher);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($launcher) l WHERE pid <> $pid"), 'a launcher that is terminated is started again');
expire('aside', 'e');
is_swept('aside', 'and sweeps');

$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.sweep_start_delay = '1 d'});
$node->restart;
expire('aside', 'f');
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM ($launcher) l");
some_time();
is($node->safe_psql('aside', 'SELECT count(*) FROM idem_keys'), '1', 'after a start it waits as long as it is told');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET idem.sweep_start_delay');
$node->reload;
is_swept('aside', 'and no longer');

# An event that can be awaited and comes later than a sweep would: ten intervals of another timer.
sub some_time { $node->safe_psql('postgres', 'SELECT pg_sleep(1)') }

# --- Standby ----------------------------------------------------------------------------------------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('worker_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = ''});
$node->reload;
expire('aside', 'g');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'idem%'}), '0', 'a standby does not sweep');
is(sqlstate($standby, 'CALL idem_sweep()', 'aside'), '25006', 'nor when it is told to');
is($standby->safe_psql('aside', 'SELECT count(*) FROM idem_keys'), '1', 'the expired key is there');
$standby->promote;
is_swept('aside', 'when it is promoted, it sweeps', $standby);

# Shutdown is not held up.
$standby->stop('fast');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/(?:PANIC|terminated by signal|TRAP)/, 'nothing crashed');
done_testing();
