# idem_stats with the library preloaded: what is counted, by whom it is seen, and what becomes of it when the server stops,
# crashes, runs out of room, or a database goes.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('stats',
    conf => "shared_preload_libraries = 'idem'\nidem.stats_max_scopes = 40\nmax_connections = 30\n"
      . "restart_after_crash = on\nautovacuum = off\n");
my $file = $node->data_dir . '/pg_stat/idem.stat';

sub stats
{
    my ($scope, $database) = @_;
    return $node->safe_psql($database // 'postgres',
        "SELECT acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept FROM idem_stats WHERE scope = '$scope'");
}

sub other
{
    my ($database) = @_;
    return $node->safe_psql($database, 'SELECT coalesce(sum(acquired), 0) FROM idem_stats WHERE is_other');
}

# --- What is counted ------------------------------------------------------------------------------------------------------

is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', 'nothing is counted at first');
is($node->safe_psql('postgres', "SELECT level FROM idem_health() WHERE check_name = 'preload'"), 'ok', 'health knows of the preload');

# acquired, duplicates, in_flight, in_doubt, mismatches, takeovers, stale_fences, swept
my @counted = (
    [ 'claim', q{SELECT idem_claim('k', scope => '%1$s'), idem_claim('k', scope => '%1$s'), idem_claim('k', scope => '%1$s')}, '1|2|0|0|0|0|0|0' ],
    [ 'try', q{SELECT idem_try_claim('k', scope => '%1$s'), idem_try_claim('k', scope => '%1$s')}, '1|1|0|0|0|0|0|0' ],
    [ 'many', q{SELECT idem_claim('a', scope => '%1$s'); SELECT * FROM idem_claim_many('{a,b,c,b}', scope => '%1$s')}, '3|2|0|0|0|0|0|0' ],
    [ 'bulk', q{SELECT count(*) FROM idem_claim_many((SELECT array_agg(i::text) FROM generate_series(1, 5000) i), scope => '%1$s')}, '5000|0|0|0|0|0|0|0' ],
    [ 'mixed', q{SELECT outcome FROM idem_begin('b', lease => '1 us', scope => '%1$s');
                 SELECT pg_sleep(0.01); SELECT * FROM idem_claim_many('{a,b,c}', scope => '%1$s')}, '3|0|0|0|0|1|0|0' ],
    [ 'begin', q{BEGIN; SELECT idem_begin('k', 'x', scope => '%1$s'), idem_begin('k', 'x', scope => '%1$s'); COMMIT;
                 SELECT idem_begin('k', 'y', scope => '%1$s')}, '1|1|0|0|1|0|0|0' ],
    [ 'execute', q{SELECT idem_execute('k', 'SELECT 1', scope => '%1$s'), idem_execute('k', 'SELECT 1', scope => '%1$s')}, '1|1|0|0|0|0|0|0' ],
    [ 'lease', q{SELECT idem_begin('k', lease => '1 h', scope => '%1$s'); SELECT idem_begin('k', lease => '1 h', scope => '%1$s')}, '1|0|1|0|0|0|0|0' ],
    [ 'lapse', q{SELECT idem_begin('k', lease => '1 us', scope => '%1$s'); SELECT pg_sleep(0.01); SELECT idem_begin('k', lease => '1 h', scope => '%1$s')}, '1|0|0|0|0|1|0|0' ],
    [ 'doubt', q{SELECT idem_scope_set('%1$s', on_lease_expiry => 'manual'); SELECT idem_begin('k', lease => '1 us', scope => '%1$s');
                 SELECT pg_sleep(0.01); SELECT idem_try_claim('k', scope => '%1$s')}, '1|0|0|1|0|0|0|0' ],
    [ 'lock', q{SELECT idem_lock('k', scope => '%1$s'); SELECT idem_lock('k', scope => '%1$s'); SELECT idem_unlock('k', 1, '%1$s')}, '1|0|1|0|0|0|1|0' ],
    [ 'token', q{SELECT idem_token_issue(scope => '%1$s') AS token \gset
                 SELECT idem_token_redeem(:'token', scope => '%1$s'); SELECT idem_token_redeem(:'token', scope => '%1$s')}, '1|1|0|0|0|0|0|0' ],
    [ 'rollback', q{BEGIN; SELECT idem_claim('k', scope => '%1$s'); ROLLBACK; SELECT idem_claim('k', scope => '%1$s')}, '2|0|0|0|0|0|0|0' ],
    [ 'off', q{SET idem.track_stats = off; SELECT idem_claim('k', scope => '%1$s')}, '' ],
    [ 'bad', q{SELECT idem_lookup('k', scope => '%1$s')}, '' ],);
foreach my $case (@counted)
{
    my ($scope, $sql, $expected) = @$case;
    $node->safe_psql('postgres', sprintf($sql, $scope));
    is(stats($scope), $expected, "counted: $scope");
}

# Answers that are errors.
foreach my $case (
    [ 'stale_complete', q{SELECT idem_complete('k', fence => 1, scope => '%s')}, 'ID001', '0|0|0|0|0|0|1|0' ],
    [ 'stale_assert', q{SELECT idem_assert_fence('k', 1, '%s')}, 'ID001', '0|0|0|0|0|0|1|0' ],
    [ 'lease', q{SELECT idem_claim('k', scope => '%s')}, 'ID005', '1|0|2|0|0|0|0|0' ],
    [ 'doubt', q{SELECT idem_claim('k', scope => '%s')}, 'ID005', '1|0|0|2|0|0|0|0' ],
    [ 'doubt', q{SELECT idem_claim_many('{k}', scope => '%s')}, 'ID005', '1|0|0|3|0|0|0|0' ])
{
    my ($scope, $sql, $state, $expected) = @$case;
    is(sqlstate($node, sprintf($sql, $scope)), $state, "an answer that is $state");
    is(stats($scope), $expected, "counted with $state: $scope");
}

# --- What is swept --------------------------------------------------------------------------------------------------------

# As many as were acquired.
$node->safe_psql('postgres', <<'SQL');
SELECT idem_token_issue(scope => 'gone') AS token \gset
SELECT idem_claim('k', scope => 'gone'), idem_token_redeem(:'token', scope => 'gone'), idem_lock('k', scope => 'gone'), idem_hit('k', '1 h', 'gone');
UPDATE idem_keys SET expires_at = '2000-01-01' WHERE scope = 'gone';
UPDATE idem_tokens SET expires_at = '2000-01-01' WHERE scope = 'gone';
UPDATE idem_locks SET expires_at = '2000-01-01', lease_until = '2000-01-01' WHERE scope = 'gone';
UPDATE idem_counters SET expires_at = '2000-01-01' WHERE scope = 'gone';
CALL idem_sweep();
SQL
is(stats('gone'), '3|0|0|0|0|0|0|3', 'swept: keys, tokens and locks');

# A scope that no function lets through, written by hand: what needs no policy is swept, though not counted; the rest is refused.
$node->safe_psql('postgres', <<'SQL');
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
VALUES (now(), '2000-01-01', 1, 'c', repeat('s', 256), 'a'), (now(), '2000-01-01', 1, 'c', repeat('s', 300), 'a');
INSERT INTO idem_locks (created_at, expires_at, attempt, state, scope, key, fence) VALUES (now(), '2000-01-01', 1, 'r', repeat('s', 300), 'a', 1);
CALL idem_sweep();
SQL
is($node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM idem_keys WHERE length(scope) > 255) + (SELECT count(*) FROM idem_locks WHERE length(scope) > 255)}),
    '0', 'scopes that are too long are swept');
is($node->safe_psql('postgres', 'SELECT sum(swept) FROM idem_stats'), '3', 'but not counted');
$node->safe_psql('postgres', q{INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key, lease_until, fence)
    VALUES (now(), '2000-01-01', 1, 'p', repeat('s', 300), 'b', '2000-01-01', 1)});
is(sqlstate($node, $_), '55000', "nobody knows the policy of a scope that is too long: $_") foreach 'CALL idem_sweep()', 'SELECT idem_in_flight()';
$node->safe_psql('postgres', 'DELETE FROM idem_keys WHERE length(scope) > 255');

# --- Who sees it ----------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE app; CREATE ROLE tenant; CREATE ROLE stranger; CREATE ROLE ops;
SELECT idem_grant('app'), idem_grant('tenant'), idem_grant('ops', true);
SELECT idem_claim('k', scope => 'tenants'), idem_claim('k', scope => 'tenants/1');
SELECT idem_scope_set('tenants', owner => 'tenant');
SQL
is($node->safe_psql('postgres', q{SET ROLE app; SELECT acquired FROM idem_stats WHERE scope = 'claim'}), '1', 'granted role sees');
is(sqlstate($node, 'SET ROLE stranger; SELECT * FROM idem_stats'), '42501', 'others do not');
is($node->safe_psql('postgres', q{SET ROLE app; SELECT count(*) FROM idem_stats WHERE scope LIKE 'tenants%'}), '0', 'an owned scope, or one of an owned family, is not shown to others');
is($node->safe_psql('postgres', q{SET ROLE tenant; SELECT count(*) FROM idem_stats WHERE scope LIKE 'tenants%'}), '2', 'but to its owner');
$node->safe_psql('postgres', 'SET ROLE ops; SELECT idem_stats_reset()');
is($node->safe_psql('postgres', q{SELECT string_agg(scope, ',' ORDER BY scope) FROM idem_stats}), 'tenants,tenants/1', 'a reset leaves what its caller does not see');
$node->safe_psql('postgres', 'BEGIN; SELECT idem_stats_reset(); ROLLBACK');
is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', 'a reset is not undone');
is(sqlstate($node, 'SET ROLE app; SELECT idem_stats_reset()'), '42501', 'only operators reset');

# --- Many sessions at once ------------------------------------------------------------------------------------------------

# Each of 16 clients: 200 fresh keys and 200 duplicates in a scope that all share, and as many in one of four.
my $script = $node->basedir . '/count.sql';
append_to_file($script, <<'SQL');
\set turn :turn + 1
SELECT idem_claim(:client_id || '-' || :turn, scope => 'common'), idem_claim('one', scope => 'common');
SELECT idem_claim(:client_id || '-' || :turn, scope => 'quarter' || :client_id % 4);
SQL
$node->safe_psql('postgres', q{SELECT idem_claim('one', scope => 'common')});
$node->command_ok(
    [ 'pgbench', '--no-vacuum', '--client=16', '--jobs=2', '--transactions=200', '--define=turn=0', "--file=$script", $node->connstr('postgres') ],
    'sixteen clients at once');
is(stats('common'), '3201|3200|0|0|0|0|0|0', 'their totals are exact');
is(stats("quarter$_"), '800|0|0|0|0|0|0|0', "so are those of quarter $_") foreach 0 .. 3;

# Sessions that do nothing but count, so that they meet on the counters.
append_to_file("$script.hot", q{SELECT count(*) FROM generate_series(1, 50000) WHERE idem_claim('one', scope => 'hot');});
$node->safe_psql('postgres', q{SELECT idem_claim('one', scope => 'hot')});
$node->command_ok([ 'pgbench', '--no-vacuum', '--client=10', '--jobs=2', '--transactions=1', "--file=$script.hot", $node->connstr('postgres') ],
    'ten clients in a hurry');
is(stats('hot'), '1|500000|0|0|0|0|0|0', 'their totals are exact, too');

# --- Clean restart --------------------------------------------------------------------------------------------------------

ok(!-e $file, 'no file while the server runs');
$node->stop;
ok(-e $file, 'a file when it is stopped');
$node->start;
ok(!-e $file, 'and none when it has started');
is(stats('common'), '3201|3200|0|0|0|0|0|0', 'a clean restart keeps the counters');
$node->safe_psql('postgres', q{SELECT idem_claim('two', scope => 'common')});
$node->restart;
is(stats('common'), '3202|3200|0|0|0|0|0|0', 'and they go on counting');

# --- Damaged files --------------------------------------------------------------------------------------------------------

$node->stop;
my $kept = slurp_bytes($file);

sub slurp_bytes
{
    my ($path) = @_;
    open my $handle, '<:raw', $path or die "could not open \"$path\": $!";
    local $/;
    my $content = <$handle>;
    close $handle;
    return $content;
}

sub start_with
{
    my ($content) = @_;
    open my $handle, '>:raw', $file or die "could not open \"$file\": $!";
    print $handle $content;
    close $handle;
    my $offset = -s $node->logfile;
    $node->start;
    return slurp_file($node->logfile, $offset);
}

my %damaged = (
    'an empty file' => '',
    'a truncated file' => substr($kept, 0, length($kept) - 10),
    'a file with one bit changed' => substr($kept, 0, 100) . chr(ord(substr($kept, 100, 1)) ^ 1) . substr($kept, 101),
    'a file of another format' => 'x' . substr($kept, 1),
    'a file that claims to be larger' => substr($kept, 0, 8) . pack('Q', ~0) . substr($kept, 16),
    'something else altogether' => 'garbage' x 1000,);
foreach my $what (sort keys %damaged)
{
    like(start_with($damaged{$what}), qr/LOG:  ignoring file "pg_stat\/idem\.stat"/, "$what is ignored, and logged");
    is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', "$what: the counters start from zero");
    ok(!-e $file, "$what is removed");
    $node->stop;
}
unlike(start_with($kept), qr/idem\.stat/, 'an intact file is read without a word');
is(stats('common'), '3202|3200|0|0|0|0|0|0', 'and its counters are there');

# --- Crashes --------------------------------------------------------------------------------------------------------------

my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
kill 'KILL', $pid;
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)") or die 'no restart after a crash';
eval { $session->quit };
is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', 'after a crash, the counters start from zero');
$node->safe_psql('postgres', q{SELECT idem_claim('three', scope => 'common')});
is(stats('common'), '1|0|0|0|0|0|0|0', 'and count');
$node->stop('immediate');
ok(!-e $file, 'an immediate stop writes no file');
start_with($kept);
is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', 'a file from before a crash is not read');
ok(!-e $file, 'but removed');

# --- More scopes than room ------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{SELECT idem_claim('k', scope => 's' || i) FROM generate_series(1, 60) i});
is($node->safe_psql('postgres', 'SELECT count(*), count(scope), sum(acquired) FROM idem_stats'), '41|40|60', 'forty scopes, and a row for the rest');
is(other('postgres'), '20', 'which says how much was counted in it');
is($node->safe_psql('postgres', q{SELECT idem_claim('k', scope => 's60'), idem_claim('k2', scope => 's1'); SELECT duplicates FROM idem_stats WHERE is_other}),
    lines('f|t', '1'), 'known scopes keep their own counters');
is(stats('s1'), '2|0|0|0|0|0|0|0', 'as before');
is($node->safe_psql('postgres', "SELECT level FROM idem_health() WHERE check_name = 'statistics'"), 'notice', 'health says that there are too many');
$node->restart;
is(other('postgres'), '20', 'the rest survives a restart');
is(stats('s1'), '2|0|0|0|0|0|0|0', 'beside the others');

# With less room than what was kept, nothing is lost.
$node->append_conf('postgresql.conf', 'idem.stats_max_scopes = 10');
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(scope), sum(acquired) FROM idem_stats'), '10|61', 'a smaller table keeps the totals');
$node->append_conf('postgresql.conf', 'idem.stats_max_scopes = 0');
$node->restart;
is($node->safe_psql('postgres', 'SELECT count(scope), sum(acquired) FROM idem_stats'), '0|61', 'and so does none at all');
$node->append_conf('postgresql.conf', 'idem.stats_max_scopes = 12');
$node->safe_psql('postgres', 'SELECT idem_stats_reset()');
$node->restart;

# --- Databases ------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach 'one', 'two';
$node->safe_psql($_, 'CREATE EXTENSION idem') foreach 'one', 'two';
$node->safe_psql('one', q{SELECT idem_claim('k', scope => 's' || i) FROM generate_series(1, 15) i});
$node->safe_psql('two', q{SELECT idem_claim('k', scope => 's1')});
is($node->safe_psql('one', 'SELECT count(scope), sum(acquired) FROM idem_stats'), '12|15', 'one database fills the table');
is($node->safe_psql('two', 'SELECT count(scope), sum(acquired) FROM idem_stats'), '0|1', 'the other counts in its own bucket');
is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_stats'), '0', 'which a third does not see');
$node->safe_psql('postgres', 'DROP DATABASE one');
ok( $node->poll_query_until('two', q{SELECT idem_claim('k', scope => 's2') IS NULL OR EXISTS (SELECT FROM idem_stats WHERE scope = 's2')}),
    'a dropped database makes room');
$node->safe_psql('two', q{SELECT idem_claim('k', scope => 's' || i) FROM generate_series(3, 13) i});
is($node->safe_psql('two', 'SELECT count(scope) FROM idem_stats'), '12', 'all of it');
is($node->safe_psql('two', q{SELECT string_agg(DISTINCT acquired::text, ',') FROM idem_stats WHERE scope NOT IN ('s1', 's2')}), '1',
    'whose counters begin at zero');
$node->safe_psql('postgres', 'CREATE DATABASE successor');
$node->safe_psql('successor', q{CREATE EXTENSION idem; SELECT idem_claim('k', scope => 's1')});
is(other('successor'), '1', 'so does the bucket of the database that went');
$node->safe_psql('postgres', 'CREATE DATABASE three TEMPLATE two');
is($node->safe_psql('three', 'SELECT count(*) FROM idem_stats'), '0', 'a copy of a database starts from zero');

# --- A standby ------------------------------------------------------------------------------------------------------------

$node->append_conf('postgresql.conf', "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on");
$node->append_conf('pg_hba.conf', "local replication all trust");
$node->restart;
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
is($standby->safe_psql('two', q{SELECT idem_claim('k', scope => 's1'); SELECT duplicates FROM idem_stats}), lines('f', '1'),
    'a standby counts for itself');
is($standby->safe_psql('two', q{SELECT count(*) FROM idem_in_flight()}), '0', 'idem_in_flight works there');
is($standby->safe_psql('two', q{SELECT count(*) > 10 FROM idem_health()}), 't', 'and idem_health');
$node->safe_psql('two', q{SELECT outcome FROM idem_begin('leased', lease => '1 h')});
my $open = $node->background_psql('two');
$open->query_safe(q{BEGIN; SELECT idem_claim('open')});
$node->wait_for_catchup($standby);
is($standby->safe_psql('two', 'SELECT key, mode, pid FROM idem_in_flight()'), 'leased|leased|', 'which shows what is committed and leased');
is($node->safe_psql('two', q{SELECT count(*) FROM idem_in_flight() WHERE key = 'open' AND pid IS NOT NULL}), '1', 'the primary also what is not');
$open->quit;
$standby->restart;
is($standby->safe_psql('two', 'SELECT duplicates FROM idem_stats'), '1', 'its counters survive its restart');

$_->stop foreach $standby, $node;
done_testing();
