# idem_health where it takes a server of its own: transactions left prepared, another version of the collation, a library and
# SQL that do not belong together, tables too large to be read in time. And idem_in_flight on such a table.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('health',
    conf => "max_prepared_transactions = 2\nautovacuum = off\nshared_buffers = 256MB\nfsync = off\n");

sub level_of
{
    my ($check, $database) = @_;
    return $node->safe_psql($database // 'postgres', "SELECT level FROM idem_health() WHERE check_name = '$check'");
}

sub detail_of
{
    my ($check, $database) = @_;
    return $node->safe_psql($database // 'postgres', "SELECT detail FROM idem_health() WHERE check_name = '$check'");
}

# --- A schema with an odd name --------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{CREATE DATABASE odd});
$node->safe_psql('odd', q{CREATE SCHEMA "Odd, %s; --"; CREATE EXTENSION idem SCHEMA "Odd, %s; --"});
is( $node->safe_psql('odd', q{SELECT count(*), string_agg(check_name, ',') FILTER (WHERE level <> 'ok') FROM "Odd, %s; --".idem_health()}),
    '21|preload', 'all is well in a schema with an odd name, except that the library is not preloaded');
is($node->safe_psql('odd', q{SELECT count(*) FROM "Odd, %s; --".idem_stats}), '0', 'where the view works, too');

# --- A library that is older than the SQL: its functions are missing ------------------------------------------------------

$node->safe_psql('postgres', q{CREATE DATABASE newer});
$node->safe_psql('newer', 'CREATE EXTENSION idem');
my ($version) = split /\|/, $node->safe_psql('newer', q{SELECT extversion FROM pg_extension WHERE extname = 'idem'});
my ($major) = split /\./, $version;
sub state_version
{
    my ($database, $stated) = @_;
    $node->safe_psql($database, "UPDATE pg_extension SET extversion = '$stated' WHERE extname = 'idem'");
    return;
}
like(detail_of('version', 'newer'), qr/^The library has version \Q$version\E \([\w.-]+\), the SQL in this database \Q$version\E\.$/,
    'the versions, and the commit that the library was built from');
state_version('newer', "$major.99.0");
like(detail_of('version', 'newer'), qr/has version \Q$version\E .*, the SQL in this database \Q$major\E\.99\.0\. Run ALTER EXTENSION/, 'SQL of another version');
my $stderr;
$node->psql('newer', q{CREATE FUNCTION idem_future() RETURNS void LANGUAGE c AS '$libdir/idem'}, stderr => \$stderr);
like($stderr, qr/could not find function "idem_future" in file/, 'a script for a newer library says what is missing');
$node->safe_psql('newer', q{UPDATE pg_proc SET prosrc = 'idem_future' WHERE proname IN ('idem_claim', 'idem_health_library')});
is(sqlstate($node, q{SELECT idem_claim('k')}, 'newer'), '42883', 'so does a function that a newer script made');
is($node->safe_psql('newer', 'SELECT check_name, level FROM idem_health()'), 'version|critical', 'health says that the library is too old');
like(detail_of('version', 'newer'), qr/older than the SQL \(\Q$major\E\.99\.0\)/, 'and which version is needed');
is(sqlstate($node, q{SELECT idem_try_claim('k')}, 'newer'), '00000', 'what the library has goes on working');

# --- A library of another major version ------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{CREATE DATABASE other_major});
$node->safe_psql('other_major', 'CREATE EXTENSION idem');
foreach my $stated ($major + 1 . '.0.0', $major - 1 . '.9.0', 'unpackaged')
{
    state_version('other_major', $stated);
    is(sqlstate($node, $_, 'other_major'), '55000', "SQL of $stated: $_")
      foreach q{SELECT idem_claim('k')}, q{SELECT idem_lookup('k')}, q{SELECT idem_lock('l')}, q{SELECT idem_next_id()}, 'CALL idem_sweep()';
    $node->psql('other_major', q{SELECT idem_claim('k')}, stderr => \$stderr);
    like($stderr, qr/does not belong to the SQL in this database\nDETAIL:  The library has version \Q$version\E, the SQL \Q$stated\E\./,
        'the error names both');
    is($node->safe_psql('other_major', 'SELECT check_name, level FROM idem_health()'), 'version|critical', 'health says so, and looks no further');
}
state_version('other_major', $version);
is(sqlstate($node, q{SELECT idem_claim('k')}, 'other_major'), '00000', 'and works again under its own');

# --- A library that is newer: it needs what the SQL has not made yet -------------------------------------------------------

$node->safe_psql('postgres', q{CREATE DATABASE older});
$node->safe_psql('older', q{CREATE EXTENSION idem; ALTER EXTENSION idem DROP TABLE idem_keys; DROP TABLE idem_keys CASCADE;
                            UPDATE pg_extension SET extversion = split_part(extversion, '.', 1) || '.0.0-before' WHERE extname = 'idem'});
is(sqlstate($node, q{SELECT idem_claim('k')}, 'older'), '55000', 'a library that needs more than there is');
$node->psql('older', q{SELECT idem_claim('k')}, stderr => \$stderr);
like($stderr, qr/the extension's SQL in this database \Q$major\E\.0\.0-before.*HINT:  Run ALTER EXTENSION idem UPDATE/s, 'says which versions, and what to do');
is(level_of('version', 'older'), 'warning', 'health says so');
is(level_of('tables', 'older'), 'critical', 'and that the tables are not those');
is($node->safe_psql('older', "SELECT count(*) FROM idem_health() WHERE check_name = 'leases'"), '0', 'into which it does not look');

# --- Another version of the collation -------------------------------------------------------------------------------------

SKIP:
{
    my $state = sqlstate($node, q{CREATE DATABASE german TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' ENCODING 'UTF8'});
    skip('the server was built without ICU', 2) unless $state eq '00000';
    $node->safe_psql('german', 'CREATE EXTENSION idem');
    is(level_of('collation', 'german'), 'ok', 'collation of the version that the database was made with');
    $node->safe_psql('german', q{UPDATE pg_database SET datcollversion = '1.2.3' WHERE datname = 'german'});
    my $level = $node->safe_psql('german', q{SET client_min_messages = error; SELECT level FROM idem_health() WHERE check_name = 'collation'});
    is($level, 'warning', 'collation of another');
}

# --- Large tables ---------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres',
    q{SELECT count(*) FROM generate_series(1, 10) AS part, idem_claim_many((SELECT array_agg(part || '-' || md5(i::text)) FROM generate_series(1, 150000) AS i))});
$node->safe_psql('postgres', q{SELECT outcome FROM idem_begin('leased', lease => '1 h')});

# How many pages of the table two calls read, the second with a time limit. The first prepares the session, so that the limit does
# not end the second before it has begun.
sub pages_of_calls
{
    my ($limit) = @_;
    my $read = q{SELECT pg_stat_force_next_flush();
                 SELECT heap_blks_read + heap_blks_hit AS pages FROM pg_statio_user_tables WHERE relname = 'idem_keys' \gset};
    my ($stdout, $stderr);
    $node->psql('postgres', <<"SQL", stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
\\o /dev/null
$read
\\set start :pages
SELECT key FROM idem_in_flight();
$read
\\set middle :pages
SET statement_timeout = $limit;
SELECT key FROM idem_in_flight();
RESET statement_timeout;
$read
\\o
SELECT :middle - :start, :pages - :middle;
SQL
    return (split(/\|/, $stdout), $stderr);
}

my $pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('idem_keys') / 8192});
is($node->safe_psql('postgres', 'SELECT key FROM idem_in_flight()'), 'leased', 'the one lease among a million and a half of keys is found');
my ($first, $second, $errors) = pages_of_calls(0);
is("$first $second", "$pages $pages", 'by reading every page once');
($first, $second, $errors) = pages_of_calls(3);
like($errors, qr/canceling statement due to statement timeout/, 'which can be cancelled');
cmp_ok($second, '<', $pages, 'at once');

# Three figures of the check: expired rows, all rows, and the pages that they were estimated from.
sub estimate
{
    return $node->safe_psql('postgres', q{SELECT regexp_match(detail, '^(\d+) of (\d+) rows .*\(estimated from (\d+) of \d+ pages\)$')
                                            FROM idem_health() WHERE check_name = 'sweep_lag_of_idem_keys'}) =~ /^\{(\d+),(\d+),(\d+)\}$/;
}
cmp_ok($pages, '>', 12_000, 'there are more pages than a check reads');
$node->safe_psql('postgres', q{UPDATE idem_keys SET expires_at = now() - interval '1 h' WHERE starts_with(key, '1-')});
my ($expired, $rows, $read) = estimate();
is($read, 10_000, 'some of them are sampled');
ok(abs($rows / 1_500_001 - 1) < 0.05, 'the number of rows is estimated') or diag($rows);
ok(abs($expired / 150_000 - 1) < 0.2, 'and the number of expired ones') or diag($expired);

# --- Transactions left prepared -------------------------------------------------------------------------------------------

SKIP:
{
    my $library = clock_library();
    skip('there is no C compiler', 3) unless $library;
    $node->stop;
    start_by_clock($node, $library, 0);
    $node->safe_psql('postgres', q{BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'forgotten'});
    is(level_of('prepared_transactions'), 'ok', 'a transaction that was just prepared');
    set_clock($node, 3700);
    is(level_of('prepared_transactions'), 'warning', 'a transaction prepared an hour ago');
    $node->safe_psql('postgres', q{ROLLBACK PREPARED 'forgotten'});
    is(level_of('prepared_transactions'), 'ok', 'it is gone');
}

$node->stop;
done_testing();
