# Claims go on, and stay exact, while the table of keys is reindexed, rewritten and vacuumed under them.

use strict;
use warnings;

use IdemCluster;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('maintenance', conf => "autovacuum = off\nlog_statement = none\n");
$node->safe_psql('postgres', 'CREATE TABLE acks (key text)');
my $primary_key = $node->safe_psql('postgres',
    q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'idem_keys'::regclass AND indisprimary});

# One session, which keeps what it knows of the table from one rewrite to the next.
my $session = $node->background_psql('postgres');
my $held = $session->query_safe(q{SELECT fence FROM idem_begin('held', lease => '1 h')});
my $round = 0;
foreach my $work (
    'VACUUM FULL idem_keys',
    "CLUSTER idem_keys USING $primary_key",
    'REINDEX TABLE idem_keys',
    'REINDEX TABLE CONCURRENTLY idem_keys',
    'VACUUM (FREEZE) idem_keys',
    'ALTER TABLE idem_keys SET TABLESPACE pg_default',
    'CREATE INDEX extra ON idem_keys (key)',
    'DROP INDEX extra',
    'ANALYZE idem_keys')
{
    $round++;
    $session->query_safe("SELECT idem_claim('kept-$round'), idem_claim_many(ARRAY['kept-many-$round'])");
    $node->safe_psql('postgres', $work);
    is( $session->query_safe(
            "SELECT idem_claim('kept-$round'), idem_try_claim('kept-many-$round'), idem_claim('new-$round'), idem_claim('new-$round')"),
        'f|completed|t|f',
        "after $work: claims");
    is( $session->query_safe("SELECT idem_claim_many(ARRAY['kept-$round', 'new-$round', 'new-many-$round'])"),
        "new-many-$round", "after $work: bulk claims");
    is( $session->query_safe("SELECT idem_renew('held', $held) IS NOT NULL, (SELECT attempt FROM idem_lookup('held'))"),
        't|1', "after $work: the holder");
}
$session->query_safe('TRUNCATE idem_keys');
is($session->query_safe(q{SELECT idem_claim('kept-1'), idem_claim('kept-1')}), 't|f', 'after TRUNCATE');
$session->query_safe('TRUNCATE idem_keys');
$session->quit;

# Clients claim in a loop meanwhile; every key they are given, they note in the same transaction. They walk through the same
# keys, and whoever meets a duplicate has the shorter way, so that they stay together and race for each.
my $files = $node->basedir;
append_to_file("$files/claim.sql", <<'SQL');
\set k :k + 1
INSERT INTO acks SELECT 'key-' || :k WHERE idem_claim('key-' || :k);
SQL
append_to_file("$files/claim_many.sql", <<'SQL');
INSERT INTO acks SELECT k FROM idem_claim_many(ARRAY(SELECT md5(n::text) FROM generate_series(3 * :k, 3 * :k + 20) AS n)) AS k;
\set k :k + 1
SQL
append_to_file("$files/lease.sql", <<'SQL');
\set k :k + 1
SELECT coalesce(fence, 0) AS fence FROM idem_begin('lease-' || :k, lease => '1 h') \gset
\if :fence > 0
BEGIN;
INSERT INTO acks VALUES ('lease-' || :k);
SELECT idem_complete('lease-' || :k, NULL, 200, :fence);
COMMIT;
\endif
SQL

sub maintain
{
    my ($name, @work) = @_;
    my ($output, $errors) = ('', '');
    my $clients = IPC::Run::start(
        [
            'pgbench', '-n', '-c', '16', '-j', '2', '-T', '4', '-D', 'k=0', '-f', "$files/claim.sql\@4", '-f',
                "$files/claim_many.sql\@1",
            '-f', "$files/lease.sql\@3", $node->connstr('postgres') ],
        '>', \$output, '2>', \$errors, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
    my $rounds = 0;
    while ($clients->pump_nb, $clients->pumpable)
    {
        $node->safe_psql('postgres', $_) foreach @work;
        $rounds++;
    }
    ok($clients->finish, "$name: the clients got through");
    cmp_ok($rounds, '>', 1, "$name: several times");
    unlike($errors, qr/error/i, "$name: the clients met no error");
    note $output, $errors;
    is( $node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT key) FROM acks'),
        '0', "$name: no key was acknowledged twice");
    cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM acks'), '>', 100, "$name: and many were, once");
    is( $node->safe_psql('postgres', q{SELECT count(*) FROM acks WHERE idem_try_claim(key) <> 'completed'}),
        '0', "$name: each of them is a duplicate now");
    is( $node->safe_psql(
            'postgres',
            q{SELECT count(*) FROM idem_keys
              WHERE key NOT LIKE 'lease-%' AND key NOT LIKE '%-old' AND key NOT IN (SELECT key FROM acks)}),
        '0', "$name: there is no key that nobody was given");
    check_indexes($node, 'idem_keys', "$name: the indexes agree with the table");
    $node->safe_psql('postgres', 'TRUNCATE acks, idem_keys');
}

maintain('REINDEX CONCURRENTLY', 'REINDEX TABLE CONCURRENTLY idem_keys');
maintain('rewriting', 'VACUUM FULL idem_keys', "CLUSTER idem_keys USING $primary_key", 'REINDEX TABLE idem_keys');
maintain(
    'indexing and vacuuming',
    'CREATE INDEX CONCURRENTLY extra ON idem_keys (key)',
    'VACUUM idem_keys',
    'DROP INDEX CONCURRENTLY extra');

# Whole pages of the index become empty and are taken away, among the pages where the clients look.
maintain(
    'purging',
    q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT md5(n::text) || '-old' FROM generate_series(1, 20000) AS n))},
    q{DELETE FROM idem_keys WHERE key LIKE '%-old'},
    'VACUUM idem_keys');

$node->stop;
done_testing();
