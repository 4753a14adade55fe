# Indexes that a user adds to the table of keys are kept up like any other, and a unique one has its say.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('indexes', conf => "autovacuum = off\n");

# One index on every column that can have one, an expression, and a part of the table.
$node->safe_psql('postgres', <<'SQL');
DO $$
DECLARE
  col name;
BEGIN
  FOR col IN SELECT attname FROM pg_attribute AS a
             WHERE attrelid = 'idem_keys'::regclass AND attnum > 0 AND NOT attisdropped
               AND (EXISTS (SELECT FROM pg_opclass WHERE opcintype = atttypid AND opcdefault
                            AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree'))
                    OR atttypid = 'varchar'::regtype)
  LOOP
    EXECUTE format('CREATE INDEX %I ON idem_keys (%I)', 'extra_' || col, col);
  END LOOP;
END $$;
CREATE INDEX extra_expression ON idem_keys (upper(key));
CREATE INDEX extra_part ON idem_keys (key) WHERE key LIKE '%7';
SQL

my $index_count = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_index WHERE indrelid = 'idem_keys'::regclass});
cmp_ok($index_count, '>=', 5, 'there are indexes beside the primary key');

sub use_keys
{
    my ($prefix) = @_;
    $node->safe_psql('postgres', <<"SQL");
SELECT count(*) FROM generate_series(1, 300) AS n WHERE idem_claim('$prefix-one-' || n);
SELECT count(*) FROM generate_series(1, 300) AS n WHERE idem_claim('$prefix-one-' || n);
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT '$prefix-many-' || n FROM generate_series(1, 3000) AS n));
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT '$prefix-many-' || n FROM generate_series(2500, 3500) AS n));
SELECT count(*) FROM generate_series(1, 100) AS n, idem_execute('$prefix-run-' || n, 'SELECT 1 AS one');
CREATE TABLE held AS SELECT n, fence FROM generate_series(1, 100) AS n, idem_begin('$prefix-leased-' || n, lease => '1 h');
SELECT count(idem_renew('$prefix-leased-' || n, fence, '2 h')) FROM held;
SELECT count(idem_step('$prefix-leased-' || n, fence, 'point-' || n)) FROM held;
SELECT count(idem_complete('$prefix-leased-' || n, to_jsonb(n), n, fence)) FROM held WHERE n <= 50;
SELECT count(idem_release('$prefix-leased-' || n, fence)) FROM held WHERE n > 50;
SELECT count(*) FROM generate_series(51, 100) AS n WHERE idem_claim('$prefix-leased-' || n);
DROP TABLE held;
SELECT count(idem_begin('$prefix-lapsed-' || n, lease => '1 ms')) FROM generate_series(1, 100) AS n;
SELECT count(idem_claim('$prefix-expired-' || n, '1 ms')) FROM generate_series(1, 100) AS n;
SELECT pg_sleep(0.01);
SELECT count(*) FROM generate_series(1, 100) AS n, idem_begin('$prefix-lapsed-' || n, lease => '1 h');
SELECT count(*) FROM generate_series(1, 50) AS n WHERE idem_claim('$prefix-expired-' || n);
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT '$prefix-expired-' || n FROM generate_series(51, 100) AS n));
SELECT count(*) FROM generate_series(1, 20) AS n WHERE idem_forget('$prefix-one-' || n);
BEGIN;
SELECT count(*) FROM idem_claim_many(ARRAY(SELECT '$prefix-undone-' || n FROM generate_series(1, 500) AS n));
ROLLBACK;
SQL
}

# The same question, once by the index alone and once by the table alone.
sub agree
{
    my ($name, $condition) = @_;
    my $question = "SELECT count(*), min(key), max(key) FROM idem_keys WHERE $condition";
    my $by_index = $node->safe_psql('postgres', "SET enable_seqscan = off; $question");
    my $by_table = $node->safe_psql('postgres',
        "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; $question");
    is($by_index, $by_table, $name);
    return $by_table;
}

foreach my $round ('first', 'second')
{
    use_keys($round);
    check_indexes($node, 'idem_keys', "$round round: every index has every row");
    foreach my $condition (q{upper(key) LIKE 'F%' AND upper(key) >= 'F'}, q{key LIKE '%7'}, q{key >= 'first-many-2'},
        q{scope = ''})
    {
        isnt(agree("$round round: index and table agree on $condition", $condition), '0||', "$round round: and there are rows");
    }
    $node->safe_psql('postgres', 'VACUUM idem_keys');
    check_indexes($node, 'idem_keys', "$round round: after VACUUM, too");
}
is( $node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT key FROM idem_keys WHERE upper(key) = 'FIRST-MANY-3500'}),
    'first-many-3500', 'a row is found by the index');

# A unique index of the user's is not idem's arbiter: its error is the caller's, and is not a duplicate.
$node->safe_psql('postgres', 'CREATE UNIQUE INDEX key_in_one_scope ON idem_keys (key)');
$node->safe_psql('postgres', q{SELECT idem_claim('taken')});
foreach my $call (
    q{idem_claim('taken', scope => 'other')},
    q{idem_try_claim('taken', scope => 'other')},
    q{idem_claim_many(ARRAY['free', 'taken'], scope => 'other')},
    q{idem_begin('taken', scope => 'other')},
    q{idem_execute('taken', 'SELECT 1 AS one', scope => 'other')})
{
    is(sqlstate($node, "SELECT $call"), '23505', "a user's unique index refuses: $call");
    my $stderr;
    $node->psql('postgres', "SELECT $call", stderr => \$stderr);
    like($stderr, qr/"key_in_one_scope"/, "and is named: $call");
}
is($node->safe_psql('postgres', q{SELECT idem_claim('taken'), idem_claim('free')}),
    'f|t', 'duplicates are duplicates, what was refused is free');
check_indexes($node, 'idem_keys', 'after refusals: every index has every row');

$node->stop;
done_testing();
