# Every function of the extension takes NULL, empty, huge, infinite and negative arguments, each by itself and many at random, and
# returns or raises an error that says what is wrong: no internal error, no crash, no hang but of a call that is to wait for long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use IdemCluster;
use IdemCalls;

my $node = PostgreSQL::Test::Cluster->new('odd');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nrestart_after_crash = on\nstatement_timeout = 120s\n");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE model');
install_calls($node, 'model');

my $seed = $ENV{IDEM_SEED} // 1;
my $combinations = $ENV{IDEM_COMBINATIONS} // 15;

$node->safe_psql('model', <<'SQL');
-- SQL of values, by the type of the argument.
CREATE TABLE battery.odd (type text, value text);
INSERT INTO battery.odd VALUES
    ('text', $$''$$), ('text', $$repeat('x', 100)$$), ('text', $$repeat('x', 1025)$$), ('text', $$repeat('x', 2000000)$$), ('text', $$repeat('é', 600)$$), ('text', $$E'\x01\x7f\n\t"\\'''$$),
    ('text', $$'done'$$), ('text', $$'leased'$$), ('text', $$'lock'$$), ('text', $$'order'$$), ('text', $$'created'$$), ('text', $$'completed'$$), ('text', $$'SELECT 1'$$), ('text', $$'SELECT 1; SELECT 2'$$),
    ('text', $$'COMMIT'$$), ('text', $$'SELECT idem_claim(''done'')'$$), ('text', $$'DELETE FROM item RETURNING *'$$), ('text', $$'SELECT'$$), ('text', $$'owned'$$), ('text', $$'manual'$$), ('text', $$'POST'$$), ('text', $$'"a"'$$), ('text', $$idem_token_issue()$$),
    ('bigint', '0'), ('bigint', '-1'), ('bigint', '9223372036854775807'), ('bigint', '(-9223372036854775808)'), ('bigint', $$battery.fence('leased')$$), ('bigint', $$battery.fence('lock')$$),
    ('integer', '0'), ('integer', '-1'), ('integer', '1'), ('integer', '2147483647'), ('integer', '(-2147483648)'), ('integer', '200'), ('integer', '999'),
    ('boolean', 'true'), ('boolean', 'false'),
    ('interval', $$'0'$$), ('interval', $$'-1 us'$$), ('interval', $$'1 us'$$), ('interval', $$'178000000 years'$$), ('interval', $$'-178000000 years'$$), ('interval', $$'2147483647 months 2147483647 days'$$),
    ('interval', $$'1 month -30 days'$$), ('interval', $$'-1 month 31 days'$$), ('interval', $$'2147483647 days'$$), ('interval', $$'2000000000 h'$$), ('interval', $$'1 day'$$),
    ('double precision', $$'NaN'$$), ('double precision', $$'Infinity'$$), ('double precision', $$'-Infinity'$$), ('double precision', '0'), ('double precision', '-1'), ('double precision', '1e308'), ('double precision', '1e-308'), ('double precision', '5e-324'),
    ('numeric', $$'NaN'$$), ('numeric', $$'Infinity'$$), ('numeric', $$'-Infinity'$$), ('numeric', '1e1000'), ('numeric', '-1e-1000'), ('numeric', '1'),
    ('jsonb', $$'null'$$), ('jsonb', $$'{}'$$), ('jsonb', $$'[]'$$), ('jsonb', '$$1e400$$'), ('jsonb', $$'"s"'$$), ('jsonb', $$'{"id": 1}'$$), ('jsonb', $$'{"id": null}'$$), ('jsonb', $$'{"id": []}'$$), ('jsonb', $$'{"id": "x"}'$$), ('jsonb', $$'{"id": 1e30}'$$),
    ('jsonb', $$'{"id": 1, "name": {"a": [null]}}'$$), ('jsonb', $$'{"": 1}'$$), ('jsonb', $$'{"nope": 1}'$$), ('jsonb', $$'{"ctid": "(0,1)"}'$$), ('jsonb', $$'{"tableoid": 1}'$$), ('jsonb', $$(repeat('[', 5000) || repeat(']', 5000))$$),
    ('jsonb', $$('"' || repeat('x', 2000000) || '"')$$), ('jsonb', $$'{"initial": ["a"], "transitions": {"a": ["b", 1]}}'$$), ('jsonb', $$'{"initial": "a", "transitions": []}'$$), ('jsonb', $$'{"initial": [], "transitions": {"a": {}}}'$$),
    ('jsonb', $$'{"initial": [null], "transitions": null}'$$), ('jsonb', $$'{"name": null, "quantity": 2147483648}'$$), ('jsonb', $$'{"version": 5}'$$), ('jsonb', $$(SELECT jsonb_build_object('initial', '["s1"]'::jsonb, 'transitions', jsonb_object_agg('s' || n, jsonb_build_array('s' || n + 1))) FROM generate_series(1, 3000) n)$$),
    ('bytea', $$''$$), ('bytea', $$'\x00'$$), ('bytea', $$'\x01'$$), ('bytea', $$decode(repeat('00', 2000), 'hex')$$), ('bytea', $$idem_fingerprint('1')$$), ('bytea', $$'\xff00fe'$$), ('bytea', $$decode(repeat('61', 3000000), 'hex')$$),
    ('timestamp with time zone', $$'infinity'$$), ('timestamp with time zone', $$'-infinity'$$), ('timestamp with time zone', $$'294276-12-31 23:59:59.999999+00'$$), ('timestamp with time zone', $$'4713-01-01 BC'$$), ('timestamp with time zone', 'now()'),
    ('text[]', $$'{}'$$), ('text[]', $$'{NULL}'$$), ('text[]', $$'{{a,b},{c,d}}'$$), ('text[]', $$'[5:6]={a,b}'$$), ('text[]', $$'{"",a}'$$), ('text[]', $$array_fill('k'::text, ARRAY[20000])$$), ('text[]', $$ARRAY[repeat('x', 2000)]$$),
    ('bigint[]', $$'{}'$$), ('bigint[]', $$'{NULL}'$$), ('bigint[]', $$'{{1,2},{3,4}}'$$), ('bigint[]', $$'{9223372036854775807,-1,0,0}'$$), ('bigint[]', $$array_fill(1::bigint, ARRAY[20000])$$),
    ('jsonb[]', $$'{}'$$), ('jsonb[]', $$'{NULL}'$$), ('jsonb[]', $$ARRAY['{"id": 1}', '{"id": 1}']$$), ('jsonb[]', $$ARRAY['[]', 'null']$$), ('jsonb[]', $$ARRAY[ARRAY['{"id": 1}']]$$),
    ('name', $$''$$), ('name', $$'id'$$), ('name', $$'state'$$), ('name', $$'quantity'$$), ('name', $$'ctid'$$), ('name', $$'tableoid'$$), ('name', $$'nope'$$), ('name', $$'version'$$), ('name', $$repeat('n', 63)$$),
    ('name[]', $$'{}'$$), ('name[]', $$'{NULL}'$$), ('name[]', $$'{id,id}'$$), ('name[]', $$'{{id}}'$$), ('name[]', $$'{ctid}'$$), ('name[]', $$'{name}'$$), ('name[]', $$'[3:3]={name}'$$),
    ('regclass', '0'), ('regclass', '4294967295'), ('regclass', $$'pg_class'$$), ('regclass', $$'pg_tables'$$), ('regclass', $$'idem_keys'$$), ('regclass', $$'idem_fence_high_water'$$), ('regclass', $$'idem_keys_pkey'$$), ('regclass', $$'idem_ticket'$$),
    ('regclass', $$'item'$$), ('regclass', $$'orders'$$), ('regclass', $$'logged'$$), ('regclass', $$'loose'$$), ('regclass', $$'bare'$$), ('regclass', $$'idem_stats'$$), ('regclass', $$'partitioned'$$), ('regclass', $$'seen'$$), ('regclass', $$'pg_toast.pg_toast_1255'$$),
    ('regrole', '0'), ('regrole', '4294967295'), ('regrole', $$'pg_monitor'$$), ('regrole', $$'idem_app'$$), ('regrole', $$'postgres'$$);
INSERT INTO battery.odd SELECT DISTINCT type, 'NULL' FROM battery.odd;
CREATE TABLE partitioned (id int PRIMARY KEY, state text NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE partitioned_1 PARTITION OF partitioned DEFAULT;
CREATE VIEW seen AS SELECT * FROM item;

-- What an argument is when another one is odd.
CREATE FUNCTION battery.usual(name text, type text) RETURNS text LANGUAGE sql AS $$
    SELECT CASE
        WHEN name = 'target' THEN $v$'item'$v$ WHEN name = 'key' AND type = 'jsonb' THEN $v$'{"id": 1}'$v$ WHEN name = 'key' THEN $v$'leased'$v$
        WHEN name = 'fence' THEN $v$battery.fence('leased')$v$ WHEN name = 'machine' THEN $v$'order'$v$ WHEN name = 'statement' THEN $v$'SELECT $1, $2'$v$
        WHEN name = 'args' THEN $v$'{1,2}'$v$ WHEN name = 'definition' THEN $v$'{"initial": ["a"], "transitions": {"a": ["b"]}}'$v$
        WHEN name = 'state_column' THEN $v$'state'$v$ WHEN name = 'column_name' THEN $v$'quantity'$v$ WHEN name = 'resolution' THEN $v$'completed'$v$
        WHEN name IN ('changes', 'expected') THEN $v$'{"name": "x"}'$v$ WHEN name = 'new_row' THEN $v$'{"id": 7, "name": "x"}'$v$ WHEN name ~ '_columns$' THEN $v$'{id}'$v$
        WHEN name = 'scope' THEN $v$''$v$ WHEN name = 'method' THEN $v$'POST'$v$ WHEN name = 'secret' THEN $v$'0123456789abcdef'$v$ WHEN name = 'topic' THEN $v$'topic'$v$
        WHEN name = 'params' THEN $v$'{"a": 1}'$v$ WHEN name = 'status' THEN '200' WHEN name = 'attempts' THEN '1' WHEN name = 'wait' THEN $v$'0'$v$
        WHEN name = 'on_lease_expiry' THEN $v$'manual'$v$ WHEN name = 'owner' AND type = 'regrole' THEN $v$'idem_app'$v$
        WHEN type IN ('bigint', 'integer', 'double precision', 'numeric') THEN '1' WHEN type = 'boolean' THEN 'false' WHEN type = 'interval' THEN $v$'1 min'$v$
        WHEN type = 'jsonb' THEN $v$'{}'$v$ WHEN type = 'bytea' THEN $v$'\x01'$v$ WHEN type = 'text[]' THEN $v$'{a}'$v$ WHEN type = 'bigint[]' THEN $v$'{1}'$v$ WHEN type = 'jsonb[]' THEN $v$'{}'$v$
        WHEN type = 'timestamp with time zone' THEN 'now()' WHEN type = 'regrole' THEN $v$'idem_app'$v$ WHEN type = 'name' THEN $v$'version'$v$ ELSE $v$'x'$v$ END $$;

CREATE FUNCTION battery.try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE call;
        RAISE SQLSTATE 'HX000';
    EXCEPTION WHEN OTHERS THEN
        RETURN SQLSTATE || ' ' || SQLERRM;
    END;
END $$;
SQL

my @functions = split /\n/, $node->safe_psql('model', <<'SQL');
SELECT p.oid::regproc, array_to_string(p.proargnames[1:p.pronargs], ','), (SELECT string_agg(format_type(t, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (t, n))
FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem')
WHERE p.prorettype NOT IN ('trigger'::regtype, 'index_am_handler'::regtype) AND p.prokind = 'f' AND p.pronargs > 0 AND NOT '"any"'::regtype = ANY (p.proargtypes) ORDER BY 1
SQL
my %odd;
for (split /\n/, $node->safe_psql('model', 'SELECT type, value FROM battery.odd ORDER BY 1, 2')) { my ($type, $value) = split /\|/, $_, 2; push @{ $odd{$type} }, $value }

my @calls;
srand($seed);
for my $function (@functions)
{
    my ($name, $names, $types) = split /\|/, $function;
    my @names = split /,/, $names;
    my @types = split /,/, $types;
    my %unknown = map { $_ => 1 } grep { !$odd{$_} } @types;
    is_deeply([ sort keys %unknown ], [], "odd values are known for every argument of $name");
    my @usual = split /\|/, $node->safe_psql('model', 'SELECT ' . join(', ', map { "battery.usual('$names[$_]', '$types[$_]')" } 0 .. $#types));
    my $call = sub { my @values = @_; push @calls, "SELECT $name(" . join(', ', map { "($values[$_])::$types[$_]" } 0 .. $#types) . ')' };
    for my $i (0 .. $#types) { for my $value (@{ $odd{ $types[$i] } }) { my @values = @usual; $values[$i] = $value; $call->(@values) } }
    $call->(map { rand() < 0.5 ? $usual[$_] : $odd{ $types[$_] }[ rand @{ $odd{ $types[$_] } } ] } 0 .. $#types) for 1 .. $combinations;
}
push @calls, map { "SELECT idem_key($_)" } 'NULL', q{''}, q{'a', NULL}, q{'NaN'::numeric}, q{'Infinity'::numeric}, q{now()}, q{1.5::float8}, q{'{a}'::text[]}, q{VARIADIC '{a,NULL}'::text[]}, q{VARIADIC '{}'::text[]}, q{VARIADIC NULL::text[]}, q{row(1)}, q{'infinity'::date}, q{repeat('x', 2000000)}, q{'1'::jsonb}, q{VARIADIC '{{a}}'::text[]};

my $next = 0;
my @bad;
while ($next < @calls)
{
    my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
    append_to_file($file, join('', "SET client_min_messages = error; SET statement_timeout = '1s'; SET bytea_output = escape;\n", map { "SELECT $_ || ' ' || battery.try(\$_call_\$$calls[$_]\$_call_\$);\n" } $next .. $#calls));
    my ($stdout, $stderr) = ('', '');
    my $status = IPC::Run::run([ 'psql', '-X', '-q', '-A', '-t', '-d', $node->connstr('model'), '-f', $file ], '>', \$stdout, '2>', \$stderr);
    my %answers = $stdout =~ /^(\d+) (\w{5} .*)$/mg;
    my ($last) = sort { $b <=> $a } keys %answers, $next - 1, $stderr =~ /^psql:\S+:(\d+): ERROR:.*statement timeout/mg ? $next + $1 - 2 : ();
    push @bad, map { "$calls[$_]: $answers{$_}" } grep { $answers{$_} =~ /^(XX|53|54001|57014|55P03)/ } sort { $a <=> $b } keys %answers;
    push @bad, map { "$calls[$_]: no answer" } grep { !$answers{$_} && $calls[$_] !~ /SELECT (idem_begin|idem_http_begin|idem_lock|pessimistic_lock\w*)\(/ } $next .. ($status ? $#calls : $last);
    append_to_file($ENV{IDEM_REPORT}, join("\n", map { "$answers{$_}\t$calls[$_]" } sort { $a <=> $b } keys %answers) . "\n") if $ENV{IDEM_REPORT};
    last if $status;
    push @bad, "$calls[$last + 1]: the server crashed: $stderr";
    $node->poll_query_until('postgres', 'SELECT true');
    $next = $last + 2;
}
is(scalar(@bad), 0, 'odd arguments meet an answer or an error that says what is wrong');
diag(substr($_, 0, 600)) for @bad;
note(scalar(@calls) . ' calls, seed ' . $seed);

done_testing();
