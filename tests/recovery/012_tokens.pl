# Tokens beyond one server's life: redemptions survive a crash, a standby issues, a restored dump and a copied database take no
# other's tokens. And secrets leave by no log, dump or publication.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', streaming => 1, conf => <<'CONF');
wal_level = logical
wal_receiver_status_interval = 1s
restart_after_crash = on
autovacuum = off
log_statement = all
log_min_duration_statement = 0
log_parameter_max_length = -1
log_parameter_max_length_on_error = -1
log_error_verbosity = verbose
log_min_messages = debug2
debug_print_plan = on
CONF

sub issue
{
    my ($node, $arguments, $database) = @_;
    return $node->safe_psql($database // 'postgres', 'SELECT idem_token_issue(' . ($arguments // '') . ')');
}

sub redeem
{
    my ($node, $token, $database) = @_;
    return $node->safe_psql($database // 'postgres', "SELECT idem_token_redeem('$token')");
}

# --- Where a secret could be seen ------------------------------------------------------------------------------------------

$primary->safe_psql('postgres', <<'SQL');
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('everything', 'pgoutput');
SQL
my ($out, $err);
$primary->psql(
    'postgres', q{SET client_min_messages = debug5;
        SELECT idem_token_rotate_secret();
        SELECT idem_token_rotate_secret();
        BEGIN;
        ALTER TABLE idem_token_secrets ADD UNIQUE (key_id);
        SELECT idem_token_rotate_secret();
        ROLLBACK;
        CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', new; END';
        CREATE TRIGGER fails BEFORE INSERT ON idem_token_secrets FOR EACH ROW EXECUTE FUNCTION fails();
        SELECT idem_token_rotate_secret();
        DROP TRIGGER fails ON idem_token_secrets;
        SELECT idem_token_issue(), idem_token_redeem('x');
        ANALYZE;}, stdout => \$out, stderr => \$err, on_error_stop => 0);
like($err, qr/not the one that was installed/, 'there were errors to look at');
my @secrets = split /\n/, $primary->safe_psql('postgres', q{SET log_statement = none; SELECT encode(secret, 'hex') FROM idem_token_secrets});
is(scalar @secrets, 4, 'four secrets');

sub has_secrets
{
    my ($text) = @_;
    return scalar grep { index(lc $text, $_) >= 0 } @secrets;
}

is(has_secrets(join ' ', @secrets), 4, 'a secret would be found');
is(has_secrets($out . $err), 0, 'no message has a secret in it');
is(has_secrets(slurp_file($primary->logfile)), 0, 'nor has the log');
is( has_secrets(
        $primary->safe_psql('postgres', q{SELECT encode(data, 'escape') FROM
            pg_logical_slot_get_binary_changes('everything', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything')})),
    0, 'nor have the changes that are published');
is(has_secrets($primary->safe_psql('postgres', 'SELECT s::text FROM pg_stats s')), 0, 'nor has a view');

my $dump = $primary->basedir . '/dump';
my @dumps = ([], ['--inserts'], ['--data-only'], [ '--table', 'idem_token_secrets' ], [ '--table', '*secrets*', '--data-only' ]);
foreach my $options (@dumps)
{
    $primary->command_ok([ 'pg_dump', '-d', $primary->connstr('postgres'), '-f', $dump, @$options ], "dump: @$options");
    is(has_secrets(slurp_file($dump)), 0, "no secret in the dump: @$options");
}
$primary->command_ok([ 'pg_dumpall', '-d', $primary->connstr('postgres'), '-f', $dump ], 'dump of everything');
is(has_secrets(slurp_file($dump)), 0, 'no secret in the dump of everything');
$primary->safe_psql('postgres', "SELECT pg_drop_replication_slot('everything')");

# --- A copied database and a restored one ----------------------------------------------------------------------------------

$primary->safe_psql('postgres', 'CREATE DATABASE original');
$primary->safe_psql('original', 'CREATE EXTENSION idem');
my ($old, $used) = map { issue($primary, '', 'original') } 1 .. 2;
is(redeem($primary, $used, 'original'), 'accepted', 'redeemed in the original');
$primary->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE original');
is(redeem($primary, $old, 'copy'), 'invalid', "a copy of the database takes no token of the original's");
my $new = issue($primary, '', 'copy');
is(redeem($primary, $new, 'original'), 'invalid', "nor the original one of the copy's");
is(redeem($primary, $new, 'copy'), 'accepted', 'its own it takes');

$primary->command_ok([ 'pg_dump', '-d', $primary->connstr('original'), '-f', $dump ], 'dump of the original');
$primary->safe_psql('postgres', 'CREATE DATABASE restored');
$primary->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $primary->connstr('restored'), '-f', $dump ], 'restore');
is(redeem($primary, $old, 'restored') . ' ' . redeem($primary, $used, 'restored'), 'invalid invalid',
    'outstanding tokens are invalid after a restore');
is($primary->safe_psql('restored', 'SELECT count(*) FROM idem_tokens'), '1', 'what was redeemed is restored');
is($primary->safe_psql('restored', 'SELECT idem_token_redeem(idem_token_issue())'), 'accepted', 'and new tokens are good');
is(redeem($primary, $old, 'original'), 'accepted', "the original's are where they belong");

# --- A crash ---------------------------------------------------------------------------------------------------------------

my ($kept, $open_token, $revoked) = map { issue($primary) } 1 .. 3;
is(redeem($primary, $kept), 'accepted', 'redeemed before the crash');
my $open = $primary->background_psql('postgres');
$open->query_safe("BEGIN; SELECT idem_token_redeem('$open_token')");
is(redeem($primary, $open_token), 'in_flight', 'in flight before the crash');
$primary->stop('immediate');
eval { $open->quit };
$primary->start;
is(redeem($primary, $kept) . ' ' . redeem($primary, $open_token), 'duplicate accepted', 'after the crash');

# --- A standby -------------------------------------------------------------------------------------------------------------

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
my $session = $standby->background_psql('postgres');
my $from_standby = $session->query_safe('SELECT idem_token_issue()');
is(redeem($primary, $from_standby), 'accepted', 'the primary takes a token that the standby issued');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
is(redeem($standby, $from_standby) . ' ' . redeem($standby, 'x'), 'duplicate invalid', 'the standby answers what needs no write');
is(sqlstate($standby, "SELECT idem_token_redeem('$revoked')"), '25006', 'and redeems nothing');
is(sqlstate($standby, 'SELECT idem_token_rotate_secret()'), '25006', 'nor does it rotate');

$primary->safe_psql('postgres', 'SELECT idem_token_rotate_secret(revoke => true)');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
is($session->query_safe("SELECT idem_token_redeem('$revoked')"), 'invalid', 'a revocation reaches the sessions of a standby');
my $renewed = $session->query_safe('SELECT idem_token_issue()');
is(redeem($primary, $renewed), 'accepted', 'which go on with the new secret');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));

my $outstanding = issue($primary);
$primary->stop('immediate');
$session->quit;
$standby->promote;
is(redeem($standby, $renewed) . ' ' . redeem($standby, $outstanding), 'duplicate accepted', 'the promoted standby goes on');
$standby->stop;

done_testing();
