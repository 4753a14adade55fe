# The extension works in an oddly named schema, with an empty search_path and with one full of look-alikes.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# PostgreSQL itself refuses to put an extension like this one into a schema with a quote, a backslash or a $ in its name.
my $schema = '"Odd Schéma, %s; --"';
my $node = PostgreSQL::Test::Cluster->new('schemas');
$node->init;
$node->start;
$node->safe_psql('postgres', qq{CREATE SCHEMA $schema; SET search_path = ''; CREATE EXTENSION idem SCHEMA $schema});

# Everything that a hasty function body might leave unqualified, each of them giving itself away.
my %decoy_functions = (
    'clock_timestamp()' => 'timestamptz',
    'now()' => 'timestamptz',
    'length(pg_catalog.text)' => 'int4',
    'octet_length(pg_catalog.text)' => 'int4',
    'coalesce(pg_catalog.text, pg_catalog.text)' => 'text',
    'format(pg_catalog.text, VARIADIC pg_catalog.text[])' => 'text',
    'jsonb_agg(pg_catalog.jsonb)' => 'jsonb',
    'to_jsonb(anyelement)' => 'jsonb',
    'pg_has_role(pg_catalog.oid, pg_catalog.text)' => 'bool',
    'idem_claim(pg_catalog.text, pg_catalog.interval, pg_catalog.text)' => 'bool',);

my @decoy_operators = (
    [ '=', 'text', 'text', 'bool' ],
    [ '<>', 'text', 'text', 'bool' ],
    [ '||', 'text', 'text', 'text' ],
    [ '<', 'timestamptz', 'timestamptz', 'bool' ],
    [ '<=', 'timestamptz', 'timestamptz', 'bool' ],
    [ '>', 'timestamptz', 'timestamptz', 'bool' ],
    [ '>=', 'timestamptz', 'timestamptz', 'bool' ],
    [ '+', 'timestamptz', 'interval', 'timestamptz' ],
    [ '+', 'int8', 'int8', 'int8' ],
    [ '+', 'int8', 'int4', 'int8' ],);

sub decoy_function
{
    my ($signature, $type) = @_;
    return "CREATE FUNCTION evil.$signature RETURNS pg_catalog.$type LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''decoy''; END';\n";
}

sub decoy_operator
{
    my ($number, $name, $left, $right, $type) = @_;
    my @arguments = map { "pg_catalog.$_" } $left, $right;
    return decoy_function("operator_$number($arguments[0], $arguments[1])", $type)
      . "CREATE OPERATOR evil.$name (LEFTARG = $arguments[0], RIGHTARG = $arguments[1], FUNCTION = evil.operator_$number);\n";
}

$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA app;
CREATE TABLE app.orders (id text);
CREATE SCHEMA evil;
CREATE TABLE evil.idem_keys (scope text, key text, PRIMARY KEY (scope, key));
CREATE TABLE evil.idem_scopes (scope text PRIMARY KEY);
CREATE TABLE evil.idem_counters (scope text, key text, PRIMARY KEY (scope, key));
CREATE TABLE evil.idem_machines (name text PRIMARY KEY, definition jsonb);
CREATE TABLE evil.idem_transition_log (key jsonb);
CREATE TYPE evil.idem_outcome AS ENUM ('decoy');
CREATE TYPE evil.idem_ticket AS (decoy int);
CREATE TYPE evil.idem_key_info AS (decoy int);
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false);
CREATE DOMAIN evil.jsonb AS pg_catalog.jsonb CHECK (false);
CREATE DOMAIN evil.interval AS pg_catalog.interval CHECK (false);
CREATE ROLE client;
GRANT USAGE ON SCHEMA evil, app TO PUBLIC;
GRANT ALL ON app.orders TO PUBLIC;
SQL
$node->safe_psql('postgres', join '', map { decoy_function($_, $decoy_functions{$_}) } sort keys %decoy_functions);
$node->safe_psql('postgres', join '', map { decoy_operator($_, @{ $decoy_operators[$_] }) } 0 .. $#decoy_operators);
is(sqlstate($node, q{SET search_path = evil, pg_catalog; SELECT 'a'::pg_catalog.text = 'a'::pg_catalog.text}),
    'P0001', 'the decoys catch whoever does not look');
$node->safe_psql('postgres', qq{GRANT USAGE ON SCHEMA $schema TO PUBLIC});

# The calls themselves are free of operators and of unqualified names, so that the path can only catch the extension.
sub flow
{
    my ($path) = @_;
    return $node->safe_psql('postgres', <<"SQL");
SET search_path = $path;
SELECT $schema.idem_grant('client', true) \\g /dev/null
SELECT $schema.idem_scope_set('scoped', ttl => '1 h', lease => '2 min', on_lease_expiry => 'manual') \\g /dev/null
SELECT $schema.idem_scope_set('scoped', max_response_size => 1000, owner => 'client') \\g /dev/null
SET ROLE client;
SELECT $schema.idem_claim('k'), $schema.idem_claim('k'), $schema.idem_try_claim('k'), $schema.idem_try_claim('try');
SELECT $schema.idem_claim_many('{k,a,b,a}');
BEGIN;
SELECT outcome, attempt FROM $schema.idem_begin('t', $schema.idem_fingerprint('{"a": 1}'));
COMMIT;
SELECT outcome FROM $schema.idem_begin('t', $schema.idem_fingerprint('{"a": 2}'));
SELECT outcome, attempt, fence FROM $schema.idem_begin('l', lease => '1 min', owner => 'nonce', scope => 'scoped') \\gset
\\echo :outcome :attempt
SELECT FROM $schema.idem_step('l', :fence, 'charged', scope => 'scoped');
SELECT FROM $schema.idem_renew('l', :fence, scope => 'scoped');
SELECT state, steps, $schema.idem_is_owner('l', 'nonce', 'scoped') FROM $schema.idem_lookup('l', 'scoped');
SELECT FROM $schema.idem_complete('l', '{"paid": 1}', 201, :fence, 'scoped');
SELECT outcome, status_code, response FROM $schema.idem_begin('l', scope => 'scoped');
SELECT outcome, fence FROM $schema.idem_begin('r', lease => '1 min') \\gset
SELECT FROM $schema.idem_release('r', :fence);
BEGIN;
SELECT outcome, attempt FROM $schema.idem_begin('r');
COMMIT;
SELECT outcome, fence FROM $schema.idem_begin('d', lease => '1 ms', scope => 'scoped') \\gset
SELECT FROM pg_catalog.pg_sleep(0.01);
SELECT outcome FROM $schema.idem_begin('d', scope => 'scoped');
SELECT FROM $schema.idem_resolve('d', 'completed', '{"by": "hand"}', 200, 'scoped');
SELECT outcome, response FROM $schema.idem_begin('d', scope => 'scoped');
SELECT outcome, response FROM $schema.idem_execute('e', 'INSERT INTO app.orders VALUES (\$1) RETURNING id', '["one"]');
SELECT outcome, response FROM $schema.idem_execute('p', 'SELECT pg_catalog.current_setting(\$1) AS path', '["search_path"]');
SELECT $schema.idem_hit('k'), $schema.idem_hit('k', '1 h'), $schema.idem_hit('k', scope => 'scoped');
BEGIN;
SELECT FROM $schema.idem_serialize('k');
COMMIT;
SELECT $schema.idem_key('a', 1, true), $schema.idem_key('a:b', 'c');
SELECT $schema.idem_forget('k'), $schema.idem_forget('k'), $schema.idem_claim('k');
SELECT $schema.idem_scope_drop('scoped'), $schema.idem_scope_drop('scoped');
CREATE TEMP TABLE states (id pg_catalog.int4 PRIMARY KEY, state pg_catalog.text);
SELECT FROM $schema.idem_machine_define('m', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT FROM $schema.idem_machine_attach('pg_temp.states', 'state', 'm', true);
INSERT INTO pg_temp.states VALUES (1, 'a');
UPDATE pg_temp.states SET state = 'b';
SELECT FROM $schema.idem_machine_define('m', '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["c"]}}');
SELECT state, $schema.idem_can_transition('m', state, 'c') FROM pg_temp.states;
SELECT FROM $schema.idem_machine_detach('pg_temp.states', 'state');
SELECT FROM $schema.idem_machine_drop('m');
SHOW search_path;
RESET ROLE;
SELECT $schema.idem_revoke('client') \\g /dev/null
SELECT pg_catalog.count(*) FROM $schema.idem_keys;
DELETE FROM $schema.idem_keys;
DELETE FROM $schema.idem_counters;
SQL
}

foreach my $path (q{''}, 'evil, pg_catalog', 'pg_catalog', 'evil, app, pg_catalog, pg_temp', $schema)
{
    my $output = flow($path);
    my $shown = $node->safe_psql('postgres', "SET search_path = $path; SHOW search_path");
    my @rows = grep { $_ ne '' && $_ ne '--' } split /\n/, $output;
    my $json = $node->safe_psql('postgres',
        "SET search_path = $path; SELECT pg_catalog.to_jsonb(pg_catalog.current_setting('search_path'))");
    is_deeply(
        \@rows,
        [
            't|f|completed|acquired', 'a', 'b',
            'acquired|1', 'mismatch', 'acquired 1', 'in_progress|{"charged": null}|t',
            'completed|201|{"paid": 1}', 'acquired|2', 'in_doubt', 'completed|{"by": "hand"}',
            'acquired|[{"id": "one"}]', qq(acquired|[{"path": $json}]), '1|2|1',
            'a:1:true|a\\:b:c', 't|f|t', 't|f', 'b|t',
            $shown, '10' ],
        "path $path: every answer");
}

is( $node->safe_psql('postgres', "SET client_min_messages = error; SELECT pg_catalog.count($schema.idem_claim('old', '1 ms')); SELECT pg_catalog.pg_sleep(0.005);
        SET search_path = evil; CALL $schema.idem_sweep(); SELECT count(*), pg_catalog.sum(rows_deleted) FROM $schema.idem_sweep_progress"),
    lines('1', '', '5|1'), 'a sweep looks for nothing on the path');

# Dump and restore do not depend on the name either.
my $dump = $node->basedir . '/dump.sql';
$node->safe_psql('postgres', "SELECT $schema.idem_claim('dumped')");
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump, '-N', 'evil' ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
is($node->safe_psql('restored', "SELECT $schema.idem_claim('dumped'), $schema.idem_claim('new')"), 'f|t',
    'restored in its schema');

# CREATE EXTENSION looks into the extension's schema, where somebody may have made operators that fit better than pg_catalog's: they must not
# run, neither now as a superuser nor later in a function that was parsed meanwhile.
$node->safe_psql('postgres', 'CREATE DATABASE planted');
my $planted = $node->safe_psql('planted', <<'SQL');
CREATE SCHEMA home;
DO $$
DECLARE
    l regtype;
    r regtype;
    types CONSTANT regtype[] := '{oid,regclass,regproc,regprocedure,regtype,regnamespace,regrole,name,text,bpchar,int2,int4,int8,xid,tid}';
    operator name;
BEGIN
    FOREACH operator IN ARRAY '{=,<>,<,>}'::name[] LOOP
        FOREACH l IN ARRAY types LOOP
            FOREACH r IN ARRAY types LOOP
                CONTINUE WHEN EXISTS (SELECT FROM pg_operator WHERE oprname = operator AND oprleft = l AND oprright = r
                                                                AND oprnamespace = 'pg_catalog'::regnamespace);
                EXECUTE format('CREATE OR REPLACE FUNCTION home.trap(%s, %s) RETURNS boolean LANGUAGE plpgsql AS %L', l, r,
                               'BEGIN RAISE EXCEPTION ''trap''; END');
                EXECUTE format('CREATE OPERATOR home.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = home.trap)', operator, l, r);
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;
SELECT count(*) > 300 FROM pg_operator WHERE oprnamespace = 'home'::regnamespace;
CREATE EXTENSION idem SCHEMA home;
SELECT home.idem_claim('k');
CALL home.idem_sweep();
SELECT count(*) FROM home.idem_sweep_progress;
SELECT count(*) >= 0 FROM home.idem_stats;
SELECT count(*) FROM home.idem_in_flight();
SELECT count(*) > 5 FROM home.idem_health();
SQL
is($planted, lines('t', 't', '5', 't', '0', 't'), 'operators planted in the schema before the installation do not run');

$node->stop;
done_testing();
