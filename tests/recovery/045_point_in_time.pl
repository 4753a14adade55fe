# Recovery to a point between a claim and its commit; and dumps in parts.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('original');
$node->init(has_archiving => 1, allows_streaming => 1);
$node->append_conf('postgresql.conf', "fsync = off\nmax_prepared_transactions = 2\n");
$node->start;
sub ask { return $node->safe_psql('postgres', $_[0]) }
ask("CREATE EXTENSION idem; CREATE TABLE work (k text); SELECT idem_claim('before')");
$node->backup('base');

ask("BEGIN; SELECT idem_claim('committed'); INSERT INTO work VALUES ('committed'); COMMIT");
my $open = $node->background_psql('postgres');
$open->query_safe("BEGIN; SELECT idem_claim('between'); INSERT INTO work VALUES ('between')");
ask("BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'p'");
my $fence = ask("SELECT fence FROM idem_begin('leased', lease => '1 h')");
my $lock = ask("SELECT idem_lock('L', '1 h')");
my $token = ask("SELECT idem_token_issue('s')");
my $good = ask("SELECT idem_token_issue('s')");
ask("SELECT idem_token_redeem('$token', 's'); SELECT idem_publish('t', '1')");
my $id = ask('SELECT max(idem_next_id()) FROM generate_series(1, 5000)');
ask("SELECT pg_create_restore_point('between')");
$open->query_safe('COMMIT');
$open->quit;
ask("SELECT idem_complete('leased', '{}', 200, $fence); SELECT idem_claim('after')");
ask("COMMIT PREPARED 'p'");
my $segment = ask('SELECT pg_walfile_name(pg_current_wal_lsn())');
ask('SELECT pg_switch_wal()');
$node->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver");

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'between'\nrecovery_target_action = 'promote'\n");
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
sub there { return $restored->safe_psql('postgres', $_[0]) }

is(there("SELECT idem_try_claim('before') || ' ' || idem_try_claim('committed')"), 'completed completed', 'what was committed before the point is done');
is(there("SELECT string_agg(k, ',') FROM work"), 'committed', 'and so is its work');
is(there("SELECT idem_try_claim('between') || ' ' || idem_try_claim('after')"), 'acquired acquired', 'what was committed after it is not');
is(there("SELECT idem_try_claim('prepared')"), 'in_flight', 'what was prepared holds its key');
there("ROLLBACK PREPARED 'p'");
is(there("SELECT idem_try_claim('prepared')"), 'acquired', 'until it is rolled back');
is(there("SELECT outcome FROM idem_begin('leased', lease => '1 s')"), 'in_flight', 'a lease lives');
is(sqlstate($restored, "SELECT idem_complete('leased', '{}', 200, $fence)"), '00000', 'and its holder completes');
is(there("SELECT idem_lock('L') IS NULL"), 't', 'a lock is held');
is(there("SELECT idem_token_redeem('$token', 's') || ' ' || idem_token_redeem('$good', 's')"), 'duplicate accepted', 'tokens go on');
is(there("SELECT count(*) FROM idem_outbox_take('t')"), 1, 'a message is there');
is_growing('fences grow', $lock, there("SELECT idem_lock('new')"));
is_growing('ids grow', $id, there('SELECT idem_next_id()'));
$restored->stop;

# Dumps in parts, from the set-up that docs/operations.md describes: the extension in a schema of its own.
$node->safe_psql('postgres', 'CREATE DATABASE shop');
$node->safe_psql('shop', "CREATE SCHEMA idem; CREATE EXTENSION idem SCHEMA idem; CREATE TABLE item (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1);
    SELECT idem.optimistic_enable('item'); INSERT INTO item VALUES (1); SELECT idem.idem_claim('k')");
my $parts = 0;

sub restore
{
    my ($name, @dumps) = @_;
    my $database = 'restore_' . ++$parts;
    $node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0");
    $node->safe_psql($database, 'CREATE SCHEMA idem') if $name =~ /-e idem/;
    my $errors = '';
    for my $arguments (@dumps)
    {
        my $file = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
        command_ok([ 'pg_dump', '-f', $file, @$arguments, $node->connstr('shop') ], "$name: a dump");
        $errors .= (run_command([ 'psql', '-Xq', '-f', $file, $node->connstr($database) ]))[1];
    }
    is($errors, '', "$name: restored without errors");
    my ($status, $state) = $node->psql($database, "SELECT idem.idem_try_claim('k')");
    is($state, 'completed', "$name: a key is a duplicate");
    is(sqlstate($node, 'UPDATE item SET version = 7', $database), 'ID004', "$name: the guard holds");
}

restore('whole', []);
restore('sections', map { [ "--section=$_" ] } qw(pre-data data post-data));
restore('schema and data', ['--schema-only'], [ '--data-only', '--disable-triggers' ]);
restore('rows as INSERT', [ '--inserts', '--rows-per-insert=3' ]);
restore('one table with -e idem, where the schema is', [ '-t', 'item', '-e', 'idem' ]);

$node->stop;
done_testing();
