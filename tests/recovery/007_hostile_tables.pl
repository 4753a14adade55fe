# If the table of keys is not the plain local table that was created, every function on keys raises 55000 rather than claim in
# the wrong place, also in a session that has used the right table before.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('hostile');
$node->safe_psql('postgres', 'CREATE DATABASE intact');
$node->safe_psql('intact', <<'SQL');
CREATE EXTENSION idem;
SELECT idem_claim('done');
SELECT idem_begin('leased', lease => '1 h');
SELECT idem_hit('counted');

-- The SQLSTATE that a statement ends with; one that is let through is undone and gives P0001.
CREATE FUNCTION sqlstate_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE statement;
  RAISE EXCEPTION 'let through';
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE;
END $$;

CREATE TABLE calls (statement text);
INSERT INTO calls VALUES
  ($$SELECT idem_claim('new')$$),
  ($$SELECT idem_claim('done')$$),
  ($$SELECT idem_try_claim('new')$$),
  ($$SELECT idem_claim_many(ARRAY['new', 'done'])$$),
  ($$SELECT idem_begin('new')$$),
  ($$SELECT idem_begin('new', lease => '1 min')$$),
  ($$SELECT idem_execute('new', 'SELECT 1 AS one')$$),
  ($$SELECT * FROM idem_lookup('done')$$),
  ($$SELECT idem_step('leased', 1, 'point')$$),
  ($$SELECT idem_renew('leased', 1)$$),
  ($$SELECT idem_complete('leased', '1', 200, 1)$$),
  ($$SELECT idem_release('leased', 1)$$),
  ($$SELECT idem_forget('done')$$),
  ($$SELECT idem_resolve('leased', 'released')$$);
SQL

my $let_through = q{SELECT statement || ' -> ' || sqlstate_of(statement) FROM calls WHERE sqlstate_of(statement) <> '55000'};

# DDL for a table in place of another, made by somebody with the right to do so.
my $aside = 'ALTER EXTENSION idem DROP TABLE idem_keys; ALTER TABLE idem_keys RENAME TO idem_keys_old';
my $columns = q{
    DO $$ BEGIN
      EXECUTE (SELECT format('CREATE FOREIGN TABLE idem_keys (%s) SERVER nowhere',
                             string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum))
               FROM pg_attribute WHERE attrelid = 'idem_keys_old'::regclass AND attnum > 0 AND NOT attisdropped);
    END $$};
my $drop_key = q{
    DO $$ BEGIN
      EXECUTE (SELECT format('ALTER TABLE idem_keys DROP CONSTRAINT %I', conname)
               FROM pg_constraint WHERE conrelid = 'idem_keys'::regclass AND contype = 'p');
    END $$};

my %hostile = (
    'another table' => "$aside; CREATE TABLE idem_keys (LIKE idem_keys_old INCLUDING ALL)",
    'a table of other columns' => "$aside; CREATE TABLE idem_keys (scope text, key text, PRIMARY KEY (scope, key))",
    'a view' => "$aside; CREATE VIEW idem_keys AS SELECT * FROM idem_keys_old",
    'a partitioned table' => "$aside;
        CREATE TABLE idem_keys (LIKE idem_keys_old INCLUDING DEFAULTS, PRIMARY KEY (scope, key)) PARTITION BY HASH (scope, key);
        CREATE TABLE idem_keys_0 PARTITION OF idem_keys FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    'a foreign table' => "$aside;
        CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing; $columns",
    'no table' => 'ALTER EXTENSION idem DROP TABLE idem_keys; ALTER TABLE idem_keys RENAME TO idem_keys_old',
    'an unlogged table' => 'ALTER TABLE idem_keys SET UNLOGGED',
    'a table with a child' => 'CREATE TABLE idem_keys_child () INHERITS (idem_keys)',
    'a table without its primary key' => $drop_key,
    'a table with another primary key' => "$drop_key; ALTER TABLE idem_keys ADD PRIMARY KEY (key)",
    'a table with a deferrable primary key' => "$drop_key; ALTER TABLE idem_keys ADD PRIMARY KEY (scope, key) DEFERRABLE",);

my $number = 0;
foreach my $what (sort keys %hostile)
{
    my $database = 'hostile_' . ++$number;
    $node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE intact");
    my $warm = $node->background_psql($database);
    $warm->query_safe(q{SELECT idem_claim('warm'), idem_claim_many(ARRAY['warm']), idem_begin('warm')});
    $node->safe_psql($database, "SET client_min_messages = error; $hostile{$what}");
    is($node->safe_psql($database, $let_through), '', "$what: a new session is refused");
    is($warm->query_safe($let_through), '', "$what: a session that has used the table is refused");
    $warm->quit;
    $node->safe_psql('postgres', "DROP DATABASE $database");
}

# What can be put right again is right again.
my $session = $node->background_psql('intact', on_error_stop => 0);
is(scalar $session->query(q{SELECT idem_claim('before')}), 't', 'intact');
$session->query('ALTER TABLE idem_keys SET UNLOGGED');
$session->query('ALTER TABLE idem_keys SET LOGGED');
is(scalar $session->query(q{SELECT idem_claim('before'), idem_claim('logged again')}), 'f|t', 'logged again');

# Tables that merely look alike to a careless search.
$session->query('CREATE TEMP TABLE idem_keys (LIKE public.idem_keys INCLUDING ALL)');
$session->query('CREATE TEMP TABLE idem_scopes (LIKE public.idem_scopes INCLUDING ALL)');
is(scalar $session->query(q{SELECT idem_claim('before'), idem_claim('beside a temporary table')}), 'f|t',
    'a temporary table is passed by');
is(scalar $session->query('SELECT count(*) FROM pg_temp.idem_keys'), '0', 'and stays empty');

# The table of counters is held to the same.
$node->safe_psql('intact', 'ALTER TABLE idem_counters SET UNLOGGED');
is(sqlstate($node, q{SELECT idem_hit('counted')}, 'intact'), '55000', 'an unlogged table of counters: idem_hit');
$node->safe_psql('intact', 'ALTER TABLE idem_counters SET LOGGED');
is($node->safe_psql('intact', q{SELECT idem_hit('counted')}), '2', 'a logged one: idem_hit');

# A child that is gone again. (PostgreSQL goes on noting until the next ANALYZE that there may be one.)
$session->query('CREATE TABLE idem_keys_child () INHERITS (public.idem_keys)');
$session->query('DROP TABLE idem_keys_child');
is(scalar $session->query(q{SELECT idem_claim('before'), idem_claim('without child again')}), 'f|t', 'without a child again');
$session->quit;

$node->stop;
done_testing();
