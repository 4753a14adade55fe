# What an operator is told of rings: idem_health names a filter that is damaged and a window whose rows may arrive unseen, and
# idem_replicated_tables names what a switchover has to carry.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\n");
my $keys = fill_ring($node);
my $troubles = q{SELECT string_agg(detail, '; ') FROM idem_health() WHERE level IN ('warning', 'critical')};
is($node->safe_psql('postgres', $troubles), '', 'all is well');

is( $node->safe_psql('postgres', q{SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM idem_replicated_tables
        WHERE relation::text ~ 'ring|places' AND action = 'publish'}),
    'idem_ring_1 idem_ring_1_0 idem_ring_1_1 idem_ring_1_2 idem_ring_1_3 idem_ring_registry idem_scope_places',
    'the map and the windows are published, too');

# As pg_restore --disable-triggers leaves it: the trigger does not fire for rows that are replicated.
$node->safe_psql('postgres', 'ALTER TABLE idem_ring_1_0 ENABLE TRIGGER idem_ring_row_arrived');
like($node->safe_psql('postgres', $troubles), qr/idem_ring_row_arrived/, 'a trigger that does not fire for every row is named');
sweep($node);
$node->safe_psql('postgres', q{SET session_replication_role = replica;
    INSERT INTO idem_ring_1_0 SELECT (jsonb_populate_record(k, '{"key": "arrived-1"}')).* FROM ONLY idem_ring_1_0 k WHERE key = 'first-1'});
are_kept($node, 'a row that arrived by replication since', { arrived => 1 });
$node->safe_psql('postgres', q{ALTER TABLE idem_ring_1_0 ENABLE ALWAYS TRIGGER idem_ring_row_arrived; SELECT idem_ring_rebuild_filter('events')});
is($node->safe_psql('postgres', $troubles), '', 'all is well again');

foreach my $page (1, 0)
{
    my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('idem_ring_1_filter')});
    $node->stop;
    open my $file, '+<:raw', $path or die "could not open \"$path\": $!";
    sysseek($file, $page * 8192, 0);
    syswrite($file, "\0" x 8192) == 8192 or die "could not write \"$path\": $!";
    close $file;
    $node->start;
    like($node->safe_psql('postgres', $troubles), qr/filter|ring/, "page $page of the filter is damaged: idem_health says so");
    $node->safe_psql('postgres', q{SELECT idem_ring_rebuild_filter('events')});
    sweep($node);
    is($node->safe_psql('postgres', $troubles), '', 'it was brought back, and all is well');
}

$node->stop;
done_testing();
