# 64 sessions race for the same keys: each key is acknowledged once, and each is acknowledged.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('race', conf => "log_statement = none\nautovacuum = off\ndeadlock_timeout = 200ms\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE acks (key text);

-- Notes and completes; a holder that was overtaken has noted nothing.
CREATE FUNCTION acknowledge(key text, fence bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO acks VALUES (key);
  PERFORM idem_complete(key, NULL, 200, fence);
EXCEPTION WHEN SQLSTATE 'ID001' THEN
  NULL;
END $$;
SQL

# Every session walks through the same keys in the same order, so that they meet at each; an acknowledgement is noted in the
# transaction of its claim.
my $sessions = 64;
sub race
{
    my ($name, $keys, $script, %options) = @_;
    my $each = $options{transactions} // $keys;
    $node->pgbench(
        "-n -c $sessions -j 2 -t $each -D k=0 --max-tries=1",
        0,
        [qr{processed: ${\ ($sessions * $each) }/${\ ($sessions * $each) }}],
        [qr{^$}],
        "$name: all sessions got through",
        { "race_$name" => $script });
    $node->safe_psql('postgres', $options{after}) if $options{after};
    is( $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT key) FROM acks'),
        "$keys|$keys", "$name: each key was acknowledged, once");
    is( $node->safe_psql('postgres', q{SELECT count(*) FROM acks, idem_lookup(key) WHERE state = 'completed'}),
        $keys, "$name: each is completed");
    is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_keys'), $keys, "$name: and nothing else is there");
    check_indexes($node, 'idem_keys', "$name: the indexes agree with the table");
    $node->safe_psql('postgres', 'TRUNCATE acks, idem_keys');
}

# What a last caller does, after whom there must be no key left.
sub claim_rest
{
    my ($keys) = @_;
    return "INSERT INTO acks SELECT 'key-' || n FROM generate_series(1, $keys) AS n WHERE idem_claim('key-' || n)";
}

race('claim', 150, <<'SQL');
\set k :k + 1
INSERT INTO acks SELECT 'key-' || :k WHERE idem_claim('key-' || :k);
SQL

race('begin', 150, <<'SQL');
\set k :k + 1
INSERT INTO acks SELECT 'key-' || :k FROM idem_begin('key-' || :k, wait => '10 min') WHERE outcome = 'acquired';
SQL

race('execute', 150, <<'SQL');
\set k :k + 1
SELECT idem_execute('key-' || :k, 'INSERT INTO acks VALUES ($1)', jsonb_build_array('key-' || :k));
SQL

race('try_and_retry', 150, <<'SQL');
\set k :k + 1
INSERT INTO acks SELECT 'key-' || :k WHERE idem_try_claim('key-' || :k) = 'acquired';
SQL

# Batches that overlap, on an index that grows meanwhile.
race('batches', 3100, <<'SQL', transactions => 30);
\set k :k + 1
INSERT INTO acks SELECT key FROM idem_claim_many((SELECT array_agg('key-' || n ORDER BY random()) FROM generate_series((:k - 1) * 100 + 1, (:k + 1) * 100) AS n)) AS key;
SQL

# Some holders roll back, after which the key must not be lost: whoever comes next gets it, at the latest a last caller.
race('rollbacks', 150, <<'SQL', after => claim_rest(150));
\set k :k + 1
\set fails random(0, 1)
BEGIN;
INSERT INTO acks SELECT 'key-' || :k WHERE idem_claim('key-' || :k);
\if :fails
ROLLBACK;
\else
COMMIT;
\endif
SQL

# Overlapping sets in any order, ten keys of a hundred at a time, until all hundred are gone.
race('claim_many', 100, <<'SQL', transactions => 60, after => claim_rest(100));
\set fails random(0, 3)
BEGIN;
INSERT INTO acks SELECT k FROM idem_claim_many(ARRAY(SELECT 'key-' || n FROM generate_series(1, 100) n ORDER BY random() LIMIT 10)) k;
\if :fails
COMMIT;
\else
ROLLBACK;
\endif
SQL

# Leases that lapse at once: many take over, one completes.
race('takeover', 60, <<'SQL', after => claim_rest(60));
\set k :k + 1
SELECT coalesce(fence, 0) AS fence FROM idem_begin('key-' || :k, lease => '1 ms') \gset
\if :fence > 0
BEGIN;
SELECT acknowledge('key-' || :k, :fence);
COMMIT;
\endif
SQL

$node->stop;
done_testing();
