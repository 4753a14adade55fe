# REINDEX of a ring's filter, again and again, while its keys are claimed: no claim takes a stored key for absent, and none fails.

use strict;
use warnings;

use IPC::Run qw(start);
use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\nlog_statement = none\n");
my $keys = fill_ring($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE wrong (trouble text);
-- Claims keys that are done, one by one and in a batch.
CREATE FUNCTION claim(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO wrong SELECT 'granted: ' || o FROM idem_try_claim('first-' || n, scope => 'ring') o WHERE o <> 'completed';
    INSERT INTO wrong SELECT 'granted: ' || k
        FROM idem_claim_many(ARRAY(SELECT 'second-' || i FROM generate_series(greatest(n - 20, 1), n) i), scope => 'ring') k;
EXCEPTION WHEN others THEN
    INSERT INTO wrong VALUES (sqlstate || ': ' || sqlerrm);
END
$$;
SQL
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/claims.sql", "\\set n random(1, 1500)\nSELECT claim(:n);\n");

my $seconds = 8;
my $load = start([ 'pgbench', '--no-vacuum', '--client=4', "--time=$seconds", '--file', "$dir/claims.sql", $node->connstr('postgres') ],
    '>', \my $out, '2>', \my $err);
my $maintenance = $node->background_psql('postgres', on_error_stop => 0);
my $until = time + $seconds;
my $rounds = 0;
while (time < $until)
{
    $maintenance->query_safe('REINDEX INDEX idem_ring_1_filter');
    $maintenance->query(q{SELECT idem_ring_rebuild_filter('events')});
    $rounds++;
}
$load->finish;
$maintenance->quit;
note("$rounds rounds; pgbench: $out");
is($load->result(0), 0, 'the load ran') or diag($err);
cmp_ok($rounds, '>', 10, 'the filter was made anew again and again');
is($node->safe_psql('postgres', q{SELECT count(*), min(trouble) FROM wrong WHERE trouble LIKE 'granted%'}), '0|', 'no stored key was granted');
is($node->safe_psql('postgres', q{SELECT count(*), min(trouble) FROM wrong WHERE trouble NOT LIKE 'granted%'}), '0|', 'no claim failed');
are_kept($node, 'at the end', $keys);

$node->stop;
done_testing();
