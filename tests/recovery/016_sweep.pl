# A sweep beside claims, and through crashes: no key is given out twice in its life, none that is held is taken away, and what
# a crash interrupts, the next sweep ends.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('sweep', conf => "log_statement = none\nautovacuum = off\nmax_prepared_transactions = 2\n");
my $progress = q{FROM idem_sweep_progress WHERE table_name = 'idem_keys'};

# --- Crash ------------------------------------------------------------------------------------------------------------------

my $fence = $node->safe_psql('postgres', <<'SQL');
SELECT idem_claim('live') \g /dev/null
SELECT fence FROM idem_begin('leased', ttl => '1 ms', lease => '1 h');
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'expired ' || n FROM generate_series(1, 20000) AS n), '1 ms') \g /dev/null
SELECT pg_sleep(0.005) \g /dev/null
BEGIN;
SELECT idem_claim('expired 10000') \g /dev/null
PREPARE TRANSACTION 'holder';
CHECKPOINT;
SQL
foreach my $crash (1 .. 3)
{
    my $sweeper = $node->background_psql('postgres', on_error_stop => 0);
    $sweeper->query_until(qr/under way/, "\\echo under way\nCALL idem_sweep(500, '50 ms');\n");
    $node->poll_query_until('postgres', "SELECT state = 'running' AND rows_deleted > 500 $progress") or die 'the sweep did not start';
    # Or its batches, whose commits do not wait for their flush, would all be lost.
    $node->safe_psql('postgres', 'SELECT pg_switch_wal()') if $crash > 1;
    $node->stop('immediate');
    eval { $sweeper->quit };
    my $before = $crash == 1 ? 20000 : $node->{idem_left};
    $node->start;
    my $left = $node->{idem_left} = $node->safe_psql('postgres', q{SELECT count(*) FROM idem_keys WHERE key LIKE 'expired%'});
    is( $node->safe_psql('postgres', "SELECT state, $before - rows_deleted $progress") || "interrupted|$before",
        "interrupted|$left", "crash $crash: what was noted is what was done") if $crash > 1;
    is($node->safe_psql('postgres', q{SELECT count(*) FROM idem_keys WHERE key IN ('live', 'leased')}), '2', "crash $crash: live keys stay");
}
is( $node->safe_psql('postgres', 'SET client_min_messages = warning; CALL idem_sweep(); SELECT key FROM idem_keys ORDER BY key'),
    lines('expired 10000', 'leased', 'live'), 'the next sweep ends it, and leaves what a prepared transaction holds');
$node->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
is( $node->safe_psql('postgres', q{SET client_min_messages = warning; CALL idem_sweep(); SELECT idem_claim('expired 10000')}),
    'f', 'whose key is claimed when it commits');
$node->safe_psql('postgres', "SELECT idem_complete('leased', NULL, 200, $fence)");
pass('the holder completes with its fence');
check_indexes($node, 'idem_keys', 'the indexes agree with the table');

# --- Crash, while responses are removed ------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
SELECT idem_scope_set('short', response_ttl => '1 ms');
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key, status_code, response)
SELECT now() - interval '1 s', 'infinity', 1, 'c', 'short', 'answered ' || n, 201, jsonb_build_object('n', n) FROM generate_series(1, 20000) AS n;
CHECKPOINT;
SQL
my $answered = q{FROM idem_keys WHERE scope = 'short'};
foreach my $crash (1 .. 2)
{
    my $sweeper = $node->background_psql('postgres', on_error_stop => 0);
    $sweeper->query_until(qr/under way/, "\\echo under way\nCALL idem_sweep(500, '50 ms');\n");
    $node->poll_query_until('postgres', "SELECT state = 'running' AND rows_redacted > 500 $progress") or die 'the sweep did not start';
    $node->safe_psql('postgres', 'SELECT pg_switch_wal()');
    $node->stop('immediate');
    eval { $sweeper->quit };
    $node->start;
    is( $node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE (response IS NULL) = (response_omitted IS TRUE)), count(response) BETWEEN 1 AND 19500 $answered"),
        '20000|20000|t', "crash $crash: each key is there, with its response or without");
}
is( $node->safe_psql('postgres', "SET client_min_messages = warning; CALL idem_sweep(); SELECT count(*), count(response) $answered"),
    '20000|0', 'the next sweep removes the rest');
is($node->safe_psql('postgres', q{SELECT outcome, status_code, response_omitted FROM idem_begin('answered 7', scope => 'short')}),
    'completed|201|t', 'and replays say so');
check_indexes($node, 'idem_keys', 'the indexes agree with the table');

# --- Race -------------------------------------------------------------------------------------------------------------------
#
# Keys live for 20 ms, so that they expire, are claimed again and are swept all the time. Each claim that is granted is noted
# with a time from before it and one from after it: no two grants of a key can be nearer to each other than its life is long.
# Beside them, leases whose retention is over at once, which nobody may take away.

$node->safe_psql('postgres', 'TRUNCATE idem_keys; CREATE TABLE grants (key text, before timestamptz, after timestamptz)');
my $files = $node->basedir;
append_to_file("$files/claim.sql", <<'SQL');
\set k random(1, 150)
INSERT INTO grants SELECT 'key-' || :k, t, clock_timestamp() FROM (SELECT clock_timestamp() AS t OFFSET 0) c WHERE idem_claim('key-' || :k, '20 ms');
SQL
append_to_file("$files/try.sql", <<'SQL');
\set k random(1, 150)
\set fails random(0, 1)
BEGIN;
INSERT INTO grants SELECT 'key-' || :k, t, clock_timestamp() FROM (SELECT clock_timestamp() AS t OFFSET 0) c
 WHERE idem_try_claim('key-' || :k, '20 ms') = 'acquired';
\if :fails
ROLLBACK;
\else
COMMIT;
\endif
SQL
append_to_file("$files/many.sql", <<'SQL');
WITH c AS MATERIALIZED (SELECT clock_timestamp() AS t)
INSERT INTO grants SELECT k, t, clock_timestamp() FROM c, LATERAL idem_claim_many(ARRAY(SELECT 'key-' || n FROM generate_series(1, 150) n
                                                                                        WHERE t IS NOT NULL ORDER BY random() LIMIT 5), '20 ms') k;
SQL
append_to_file("$files/lease.sql", <<'SQL');
\set n :n + 1
SELECT fence FROM idem_begin('lease-' || :client_id || '-' || :n, ttl => '1 ms', lease => '1 min') \gset
SELECT idem_step('lease-' || :client_id || '-' || :n, :fence, 'half');
SELECT idem_complete('lease-' || :client_id || '-' || :n, '"x"', 200, :fence);
SQL
append_to_file("$files/sweep.sql", <<'SQL');
\set batch random(1, 40)
CALL idem_sweep(:batch);
SQL
$node->pgbench(
    "-n -c 24 -j 2 -T 10 -D n=0 --max-tries=1 -f $files/claim.sql\@8 -f $files/try.sql\@4 -f $files/many.sql\@2 -f $files/lease.sql\@4 "
      . "-f $files/sweep.sql\@4",
    0,
    [qr{number of failed transactions: 0}],
    [qr{^(?:.*NOTICE:  (?:swept|sweeping).*\n)*$}],
    'race: nobody met an error');
is( $node->safe_psql(
        'postgres', q{
        SELECT count(*) FROM (SELECT before, lag(before) OVER (PARTITION BY key ORDER BY after) AS last, after FROM grants) g
         WHERE after < last + interval '20 ms'}),
    '0',
    'race: no key was given out twice in its life');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM grants'), '>', 1000, 'race: and many were, often');
check_indexes($node, 'idem_keys', 'race: the indexes agree with the table');
is( $node->safe_psql(
        'postgres', q{SET client_min_messages = warning; SELECT pg_sleep(0.03) \g /dev/null
        CALL idem_sweep(); SELECT count(*) FROM idem_keys}),
    '0',
    'race: and nothing is left in the end');

# --- Replaced ---------------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'old ' || n FROM generate_series(1, 1000) AS n), '1 ms')});
my $sweeper = $node->background_psql('postgres', on_error_stop => 0);
$sweeper->query_until(qr/under way/, "\\echo under way\nCALL idem_sweep(1, '5 s');\n");
$node->poll_query_until('postgres', "SELECT count(*) > 0 $progress AND state = 'running' AND rows_deleted > 0") or die 'the sweep did not start';
$node->safe_psql('postgres', q{DROP EXTENSION idem; CREATE EXTENSION idem; SELECT idem_claim('new')});
$sweeper->query('SELECT 1');
like($sweeper->{stderr}, qr/ERROR:  table "idem_keys" was replaced during the sweep/, 'a sweep ends when its table is replaced');
eval { $sweeper->quit };
is($node->safe_psql('postgres', 'SET client_min_messages = warning; CALL idem_sweep(); SELECT key FROM idem_keys'), 'new', 'the next sweeps the new one');

$node->stop;
done_testing();
