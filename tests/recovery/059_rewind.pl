# A former primary that wrote after the promotion of its standby, and is rewound: it has what the new primary has, and nothing of its own.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $former = start_server('former', streaming => 1, conf => <<'CONF');
shared_preload_libraries = 'idem'
wal_keep_size = 256MB
wal_receiver_status_interval = 1s
autovacuum = off
CONF
$former->safe_psql('postgres', q{SELECT idem_ring_create('events', '1 h', 3), idem_scope_set('events', ring => 'events')});
$former->backup('base');
my $current = PostgreSQL::Test::Cluster->new('current');
$current->init_from_backup($former, 'base', has_streaming => 1);
$current->start;

# Claims keys in a scope of its own and in a ring, whose filter the sweep fills, and draws fences and ids. Returns the greatest fence.
sub work
{
    my ($node, $name) = @_;
    $node->safe_psql('postgres', <<SQL);
SELECT count(idem_claim('$name ' || n)), count(idem_claim('$name ' || n, scope => 'events')) FROM generate_series(1, 2000) n;
SELECT idem_execute('$name paid', 'SELECT 5 AS amount');
SELECT count(idem_next_id()) FROM generate_series(1, 1000);
CALL idem_sweep();
SQL
    return $node->safe_psql('postgres', qq{SELECT max(idem_lock('$name ' || n, '1 h')) FROM generate_series(1, 100) n});
}

work($former, 'shared');
$former->wait_for_catchup($current, 'replay', $former->lsn('flush'));
$current->promote;
$current->safe_psql('postgres', 'CHECKPOINT');    # pg_rewind reads the timeline in the control file
my $lost = work($former, 'lost');
my $kept = work($current, 'kept');
$former->stop('fast');

command_ok([ 'pg_rewind', '--target-pgdata', $former->data_dir, '--source-server', $current->connstr('postgres') ], 'pg_rewind');
$former->append_conf('postgresql.conf', 'port = ' . $former->port);    # pg_rewind copies the source's configuration, too
$former->enable_streaming($current);
$former->set_standby_mode;
$former->start;
$current->wait_for_catchup($former, 'replay', $current->lsn('flush'));

my $found = q{SELECT count(*) FROM generate_series(1, 2000) n, unnest('{"",events}'::text[]) s, idem_lookup('%s ' || n, s)};
foreach my $node ($current, $former)
{
    my $name = $node->name;
    is($node->safe_psql('postgres', sprintf($found, 'shared')), 4000, "$name: keys from before the promotion");
    is($node->safe_psql('postgres', sprintf($found, 'kept')), 4000, "$name: keys of the new primary");
    is($node->safe_psql('postgres', sprintf($found, 'lost')), 0, "$name: no key that the former primary claimed alone");
    is($node->safe_psql('postgres', q{SELECT response FROM idem_lookup('kept paid')}), '[{"amount": 5}]', "$name: the response");
    is($node->safe_psql('postgres', q{SELECT string_agg(check_name, ' ') FROM idem_health() WHERE level IN ('warning', 'critical')}), '', "$name: health");
}

# Back again: the former primary goes on where the new one was.
$current->stop('fast');
$former->promote;
is($former->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE idem_claim('kept ' || n, scope => s)) FROM generate_series(1, 2000) n, unnest('{"",events}'::text[]) s}),
    0, 'promoted again: no key is granted twice');
is($former->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE idem_claim('lost ' || n, scope => s)) FROM generate_series(1, 2000) n, unnest('{"",events}'::text[]) s}),
    4000, 'promoted again: the keys whose claims were lost are free');
my $next = $former->safe_psql('postgres', q{SELECT idem_lock('next', '1 h')});
cmp_ok($next, '>', $kept, 'promoted again: fences grow');
cmp_ok($next, '>', $lost, 'also beyond those that were lost');
check_indexes($former, 'idem_keys', 'indexes of keys');

$former->stop;
done_testing();
