# DROP EXTENSION leaves nothing behind, and CREATE works again in sessions that have used what was dropped, in the same schema
# or another.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('drop');
$node->init;
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA a;
CREATE SCHEMA b;
CREATE ROLE client;
GRANT USAGE ON SCHEMA a, b TO client;    -- what idem_grant would add to a schema that is not the extension's
CREATE FUNCTION catalog_rows() RETURNS TABLE (catalog name, n bigint) LANGUAGE plpgsql AS $$
BEGIN
  FOR catalog IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'pg_catalog'::regnamespace
                 AND relname NOT LIKE 'pg_statistic%' ORDER BY 1
  LOOP
    EXECUTE format('SELECT count(*) FROM pg_catalog.%I', catalog) INTO n;
    RETURN NEXT;
  END LOOP;
END $$;
SQL
# The second statement counts what the first has added.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE pristine AS SELECT * FROM catalog_rows();
UPDATE pristine AS p SET n = c.n FROM catalog_rows() AS c WHERE c.catalog = p.catalog;
SQL

# Catalogs that have more or fewer rows than they had before the extension was ever there.
my $leftovers = "SELECT catalog, c.n - p.n FROM pristine AS p JOIN catalog_rows() AS c USING (catalog) WHERE c.n <> p.n";

# Uses everything that has a table behind it.
sub use_all
{
    my ($session, $schema, $key) = @_;
    return $session->query_safe(<<"SQL");
SELECT $schema.idem_claim('$key'), $schema.idem_claim('$key');
SELECT $schema.idem_claim_many(ARRAY['$key', '$key-many']);
SELECT outcome FROM $schema.idem_execute('$key-paid', 'SELECT 1 AS one');
SELECT outcome FROM $schema.idem_begin('$key-leased', lease => '1 min');
SELECT $schema.idem_hit('$key-hit');
SELECT state FROM $schema.idem_lookup('$key');
SELECT outcome, fence IS NOT NULL FROM $schema.idem_begin('$key-scoped', lease => '1 min', scope => 'scoped')
SQL
}
my $fresh = lines('t|f', 'KEY-many', 'acquired', 'acquired', '1', 'completed', 'acquired|t');

sub is_fresh
{
    my ($session, $schema, $key, $name) = @_;
    is(use_all($session, $schema, $key), $fresh =~ s/KEY/$key/r, $name);
}

my $owner = $node->background_psql('postgres');
my $other = $node->background_psql('postgres', on_error_stop => 0);
foreach my $schema ('a', 'a', 'b', 'a')
{
    $owner->query_safe("CREATE EXTENSION idem SCHEMA $schema");
    $owner->query_safe("SELECT $schema.idem_grant('client', true)");
    $owner->query_safe("SELECT $schema.idem_scope_set('scoped', lease => '1 min', owner => 'client')");
    is_fresh($owner, $schema, 'k', "schema $schema: the session that created it");
    is_fresh($other, $schema, 'l', "schema $schema: another session");
    $owner->query_safe('DROP EXTENSION idem');
    is($node->safe_psql('postgres', $leftovers), '', "schema $schema: nothing is left in the catalogs");
    my ($output, $failed) = $other->query("SELECT $schema.idem_claim('m')");
    ok($failed, "schema $schema: the functions are gone");
    $other->{stderr} = '';
}

# Undone drops and creations.
$owner->query_safe('CREATE EXTENSION idem SCHEMA a');
is_fresh($owner, 'a', 'k', 'created');
$owner->query_safe('BEGIN; DROP EXTENSION idem; CREATE EXTENSION idem SCHEMA b');
is_fresh($owner, 'b', 'k', 'dropped and created elsewhere, in a transaction');
$owner->query_safe('ROLLBACK');
is( $owner->query_safe("SELECT a.idem_claim('k'), a.idem_claim('after rollback'), a.idem_hit('k-hit')"),
    'f|t|2', 'the old one is back when that is rolled back');
is($other->query_safe("SELECT a.idem_claim('after rollback')"), 'f', 'for other sessions, too');

# A claim keeps its table until it has ended.
$other->query_safe("BEGIN; SELECT a.idem_claim('open')");
is(sqlstate($node, "SET lock_timeout = '100ms'; DROP EXTENSION idem"), '55P03', 'DROP EXTENSION waits for an open claim');
$other->query_safe('COMMIT');

# A call that waits for DROP and CREATE. The statement expects a type that is gone; the next one does not.
foreach my $call ("SELECT a.idem_try_claim('waited')", "SELECT outcome FROM a.idem_execute('waited', 'SELECT 1 AS one')", 'SELECT allowed FROM a.idem_allow(\'waited\', 1, 1)',
    "SELECT a.idem_token_redeem('waited')", "SELECT action FROM a.idem_http_begin('s', 'POST', '/', 'waited', lease => '1 min')")
{
    my $caller = $node->background_psql('postgres', on_error_stop => 0);
    $caller->query_safe("\\set VERBOSITY sqlstate\n" . ($call =~ /execute|http/ ? $call =~ s/waited/known/gr : 'SELECT 1')); # the parser knows the type
    $owner->query_safe('BEGIN; DROP EXTENSION idem; CREATE EXTENSION idem SCHEMA a');
    my $pid = $caller->query_safe('SELECT pg_backend_pid()');
    $caller->query_until(qr/started/, "\\echo started\n$call;\n\\echo ended\n");
    $node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") or die;
    $owner->query_safe('COMMIT');
    $caller->query('SELECT 1');
    like($caller->{stderr}, qr/ERROR:  40001$/m, "$call: waited for DROP and CREATE EXTENSION");
    $caller->{stderr} = '';
    unlike(($caller->query($call))[0], qr/ERROR/, 'and works afterwards');
    is($caller->{stderr}, '', 'without an error');
    $caller->quit;
}

# The schema goes, and the extension with it.
$owner->query_safe('SET client_min_messages = error; DROP SCHEMA a CASCADE; CREATE SCHEMA a; GRANT USAGE ON SCHEMA a TO client');
is($node->safe_psql('postgres', $leftovers), '', 'nothing is left when the schema is dropped');
$owner->query_safe('CREATE EXTENSION idem SCHEMA a');
is_fresh($other, 'a', 'k', 'created again after its schema was dropped');

$owner->quit;
$other->quit;
$node->stop;
done_testing();
