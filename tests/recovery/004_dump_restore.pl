# A dumped and restored database answers as the old one did: keys are duplicates, holders may complete, locks are held, scopes have
# their settings and owners, counters go on, fences are greater than every dumped one, and state machines guard and log.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = start_server('source');
my @fences = split /\n/, $source->safe_psql('postgres', <<'SQL');
CREATE ROLE tenant;
CREATE ROLE stranger;
SELECT idem_grant('tenant'), idem_grant('stranger') \g /dev/null
SELECT idem_scope_set('manual', on_lease_expiry => 'manual') \g /dev/null
SELECT idem_scope_set('tenant', ttl => '1 h', lease => '10 min', max_response_size => 40, owner => 'tenant') \g /dev/null
SELECT idem_scope_set('archive', keep_forever => true) \g /dev/null
CREATE ROLE leaver;
SELECT idem_scope_set('left', owner => 'leaver') \g /dev/null
DROP ROLE leaver;
SELECT idem_claim('claimed') \g /dev/null
SELECT idem_claim('claimed', scope => 'tenant') \g /dev/null
SELECT idem_claim('quote '' backslash \ tab	ü €') \g /dev/null
SELECT idem_claim_many(ARRAY['many-1', 'many-2']) \g /dev/null
SELECT idem_execute('paid', 'SELECT 5 AS amount, ''a"b\c'' AS note', fingerprint => idem_fingerprint_text('pay 5')) \g /dev/null
SELECT idem_hit('counted') FROM generate_series(1, 3) \g /dev/null
SELECT fence FROM idem_begin('leased', idem_fingerprint_text('pay 7'), lease => '1 h', owner => 'nonce');
SELECT idem_step('leased', (SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'nonce')), 'charged') \g /dev/null
SELECT fence FROM idem_begin('lapsed', lease => '1 ms');
SELECT fence FROM idem_begin('doubtful', lease => '1 ms', scope => 'manual');
SELECT idem_lock('locked', '1 h', 'nonce');
SELECT pg_sleep(0.01) \g /dev/null
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid"], "paid": ["shipped"]}}') \g /dev/null
CREATE TABLE orders (id int PRIMARY KEY, "the state" text);
CREATE TABLE parted (id int PRIMARY KEY, state text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
SELECT idem_machine_attach('orders', 'the state', 'order', true), idem_machine_attach('parted', 'state', 'order') \g /dev/null
CREATE TABLE legacy (id int PRIMARY KEY, before text, after text);
INSERT INTO legacy VALUES (1, 'unknown', 'paid');
SELECT idem_machine_attach('legacy', 'before', 'order', validate => false), idem_machine_attach('legacy', 'after', 'order', validate => false),
    idem_machine_validate('legacy', 'after'), optimistic_enable('legacy') \g /dev/null
INSERT INTO orders VALUES (1, 'created');
UPDATE orders SET "the state" = 'paid';
INSERT INTO parted VALUES (1, 'created');
UPDATE parted SET state = 'paid';
SQL
is(scalar @fences, 4, 'three leases and a lock in the source');

# The cluster to restore into has other roles, with other OIDs.
my $target = PostgreSQL::Test::Cluster->new('target');
$target->init;
$target->start;
$target->safe_psql('postgres',
    'CREATE ROLE decoy_1; CREATE ROLE decoy_2; CREATE ROLE stranger; CREATE ROLE decoy_3; CREATE ROLE tenant');

my $dump = $source->basedir . '/dump';
$source->command_ok([ 'pg_dump', '-d', $source->connstr('postgres'), '-f', "$dump.sql" ], 'pg_dump as a script');
$source->command_ok([ 'pg_dump', '-d', $source->connstr('postgres'), '-Fc', '-f', "$dump.custom" ], 'pg_dump as an archive');
$source->command_ok([ 'pg_dump', '-d', $source->connstr('postgres'), '-Fd', '-f', "$dump.directory" ], 'pg_dump as a directory');
$source->command_ok([ 'pg_dump', '-d', $source->connstr('postgres'), '-Fd', '-T', 'parted*', '-f', "$dump.unparted" ], 'pg_dump without the partitioned table');
$target->safe_psql('postgres', 'CREATE DATABASE from_script; CREATE DATABASE from_archive; CREATE DATABASE from_directory; CREATE DATABASE from_unparted');
$target->command_ok([ 'psql', '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('from_script'), '-f', "$dump.sql" ],
    'restore from the script, in one transaction');
$target->command_ok([ 'pg_restore', '-1', '-d', $target->connstr('from_archive'), "$dump.custom" ],
    'restore from the archive, in one transaction');
$target->command_ok([ 'pg_restore', '--exit-on-error', '-j', '2', '-d', $target->connstr('from_unparted'), "$dump.unparted" ],
    'restore of all but the partitioned table from its directory, in parallel and in one call');
# In one call, PostgreSQL may create the trigger of a partitioned table before the rows of its partitions are there.
$target->command_ok([ 'pg_restore', '--exit-on-error', "--section=$_", '-j', '2', '-d', $target->connstr('from_directory'), "$dump.directory" ],
    "restore of $_ from the directory, in parallel") foreach 'pre-data', 'data', 'post-data';

foreach my $database ('from_script', 'from_archive', 'from_directory')
{
    my $answers = sub {
        my ($sql, $expected) = @_;
        is($target->safe_psql($database, $sql), $expected, "$database: $sql");
    };

    # Keys
    $answers->(
        q{SELECT idem_claim('claimed'), idem_claim('claimed', scope => 'tenant'), idem_claim(E'quote \' backslash \\\\ tab\tü €')},
        'f|f|f');
    $answers->(q{SELECT count(*) FROM idem_claim_many(ARRAY['many-1', 'many-2'])}, '0');
    $answers->(
        q{SELECT outcome, response FROM idem_begin('paid', idem_fingerprint_text('pay 5'))},
        'completed|[{"note": "a\"b\\\\c", "amount": 5}]');
    $answers->(q{SELECT outcome FROM idem_begin('paid', idem_fingerprint_text('pay 6'))}, 'mismatch');
    $answers->(q{SELECT idem_claim('new'), idem_claim('new')}, 't|f');

    # Holders
    $answers->(q{SELECT outcome, attempt FROM idem_begin('leased')}, 'in_flight|1');
    $answers->(q{SELECT outcome FROM idem_begin('leased', idem_fingerprint_text('pay 8'))}, 'mismatch');
    $answers->(
        "SELECT outcome, attempt, fence = $fences[0], steps FROM idem_begin('leased', lease => '1 h', owner => 'nonce')",
        'acquired|1|t|{"charged": null}');
    is(sqlstate($target, "SELECT idem_complete('leased', '{}', 200, $fences[1])", $database), 'ID001',
        "$database: not with another's fence");
    is(sqlstate($target, "SELECT idem_complete('leased', '{}', 200, $fences[0])", $database), '00000',
        "$database: the holder completes");
    $answers->(q{SELECT outcome, status_code FROM idem_begin('leased')}, 'completed|200');
    $answers->(q{SELECT idem_try_claim('doubtful', scope => 'manual')}, 'in_doubt');
    is(sqlstate($target, "SELECT idem_complete('doubtful', '{}', 200, $fences[2], 'manual')", $database),
        '00000', "$database: the holder of a doubtful key completes");

    # Locks
    $answers->(
        "SELECT idem_lock('locked') IS NULL, idem_lock('locked', '1 h', 'nonce') = $fences[3], idem_lock_renew('locked', $fences[3])",
        't|t|t');
    is(sqlstate($target, "BEGIN; SELECT idem_assert_fence('locked', $fences[3]); COMMIT", $database), '00000',
        "$database: the holder of a lock may write");
    $answers->("SELECT idem_unlock('locked', $fences[3]), idem_claim('locked')", 't|t');

    # Scopes
    $answers->(
        q{SET ROLE tenant;
          SELECT idem_claim('claimed', scope => 'tenant'), idem_claim('fresh', scope => 'tenant')},
        'f|t');
    is( sqlstate($target, q{SET ROLE stranger; SELECT idem_claim('claimed', scope => 'tenant')}, $database),
        '42501',
        "$database: the scope has its owner");
    is(sqlstate($target, q{SET ROLE stranger; SELECT idem_claim('own')}, $database), '00000', "$database: grants are there");
    is(sqlstate($target, q{SET ROLE decoy_1; SELECT idem_claim('own')}, $database), '42501', "$database: and only they");
    is(sqlstate($target, q{SET ROLE stranger; SELECT idem_claim('k', scope => 'left')}, $database), '42501',
        "$database: a scope without its owner is closed");
    $answers->(
        q{SELECT level, detail FROM idem_health() WHERE check_name = 'scope_owners'},
        q{warning|1 scopes belong to roles that were dropped, and only superusers may use them: 'left'});
    $answers->(
        q{SELECT idem_scope_set('left', owner => 'stranger') \g /dev/null
          SET ROLE stranger;
          SELECT idem_claim('k', scope => 'left')},
        't');
    is(sqlstate($target, q{SET ROLE tenant; SELECT * FROM idem_stats}, $database), '00000', "$database: the view of applications");
    is(sqlstate($target, q{SET ROLE tenant; SELECT * FROM idem_dead_letters}, $database), '42501', "$database: and no other");
    $answers->(
        q{SELECT date_trunc('minute', expires_at - created_at + interval '1 s') FROM idem_lookup('fresh', scope => 'tenant')},
        '01:00:00');
    $answers->(
        q{SET client_min_messages = error;
          SELECT outcome FROM idem_execute('long', 'SELECT repeat($1, 40) AS text', '["x"]', scope => 'tenant');
          SELECT outcome, response_omitted FROM idem_begin('long', scope => 'tenant')},
        lines('acquired', 'completed|t'));
    $answers->(
        q{SELECT idem_claim('kept', scope => 'archive');
          SELECT expires_at IS NULL OR expires_at = 'infinity' FROM idem_lookup('kept', scope => 'archive')},
        lines('t', 't'));

    # State machines: rows in states that are not initial came back, and are guarded
    $answers->(q{SELECT id, "the state" FROM orders}, '1|paid');
    is(sqlstate($target, q{UPDATE orders SET "the state" = 'created'}, $database), 'ID003', "$database: the guard is there");
    is(sqlstate($target, q{INSERT INTO orders VALUES (2, 'paid')}, $database), 'ID003', "$database: also for new rows");
    is(sqlstate($target, q{UPDATE orders SET "the state" = 'shipped'}, $database), '00000', "$database: and lets transitions pass");
    is(sqlstate($target, q{UPDATE parted SET id = 11, state = 'created'}, $database), 'ID003', "$database: of moved rows too");
    is(sqlstate($target, q{UPDATE parted SET id = 11, state = 'shipped'}, $database), '00000', "$database: which may move");
    is(sqlstate($target, q{SELECT idem_machine_drop('order')}, $database), '2BP01', "$database: the machine knows its tables");
    $answers->(
        q{SELECT target, kind, column_name, machine, is_enabled, is_valid FROM idem_guards WHERE target = 'legacy'::regclass ORDER BY column_name},
        lines('legacy|state|after|order|t|t', 'legacy|state|before|order|t|f', 'legacy|version|version||t|t'));
    is(sqlstate($target, q{UPDATE legacy SET before = 'paid'}, $database), 'ID003', "$database: an old row cannot move on from an unknown state");
    is(sqlstate($target, q{SELECT idem_machine_validate('legacy', 'before')}, $database), '23514', "$database: and is found by the validation");
    $answers->(
        q{SELECT target, key, state_column, from_state, to_state FROM idem_transition_log ORDER BY at},
        lines(
            'public.orders|{"id": 1}|the state||created',
            'public.orders|{"id": 1}|the state|created|paid',
            'public.orders|{"id": 1}|the state|paid|shipped'));

    # Counters
    $answers->(q{SELECT idem_hit('counted')}, '4');

    # Fences
    is_growing("$database: new fences are greater",
        @fences, split /\n/, $target->safe_psql($database, <<'SQL'));
SELECT fence FROM idem_begin('lapsed', lease => '1 min');
SELECT fence FROM idem_begin('newer', lease => '1 min');
SELECT idem_lock('locked');
SQL

    # What was restored can be dumped again.
    $target->command_ok([ 'pg_dump', '-d', $target->connstr($database), '-f', "$dump-$database.sql" ],
        "$database: dumped again");
}

# The schema of the extension and its rows, without the business tables.
$source->safe_psql('postgres', 'CREATE DATABASE apart');
$source->safe_psql('apart', q{CREATE SCHEMA idem; CREATE EXTENSION idem SCHEMA idem; SELECT idem.idem_claim('claimed')});
$source->command_ok([ 'pg_dump', '-d', $source->connstr('apart'), '-n', 'idem', '-e', 'idem', '-f', "$dump.schema" ], 'pg_dump of the schema');
$target->safe_psql('postgres', 'CREATE DATABASE apart');
$target->command_ok([ 'psql', '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('apart'), '-f', "$dump.schema" ],
    'restore of the schema, in one transaction');
is($target->safe_psql('apart', q{SELECT idem.idem_claim('claimed'), idem.idem_claim('new')}), 'f|t', 'its keys are claimed');

is($target->safe_psql('from_directory', q{SELECT check_name, detail FROM idem_health() WHERE level NOT IN ('ok', 'notice')}), '',
    'the restored installation is well');

$_->stop foreach $source, $target;
done_testing();
