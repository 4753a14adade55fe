# Logical replication of a ring: its registry, its places, its map and its windows. What was replicated is never taken for absent: while it is
# copied, as it is streamed, in windows that the subscriber's own filter covers, and after the switch.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($publisher, $subscriber) = map { PostgreSQL::Test::Cluster->new($_) } qw(publisher subscriber);
foreach my $node ($publisher, $subscriber)
{
    $node->init(allows_streaming => 'logical', extra => ['--data-checksums']);
    $node->append_conf('postgresql.conf', <<'CONF');
fsync = off
autovacuum = off
max_prepared_transactions = 2
max_logical_replication_workers = 10
max_sync_workers_per_subscription = 6
wal_retrieve_retry_interval = 200ms
wal_receiver_status_interval = 1s
CONF
    $node->start;
    $node->safe_psql('postgres', 'CREATE EXTENSION idem');
}

sub catch_up
{
    $publisher->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'idem', 'all before this')});
    $publisher->wait_for_catchup('ring');
    return;
}

# --- The initial copy: the windows come in any order, before and after the map ------------------------------------------------------

my $keys = fill_ring($publisher, 'postgres', 6);
$publisher->safe_psql('postgres', 'CREATE PUBLICATION ring FOR TABLE idem_keys, idem_scopes, idem_ring_registry, idem_scope_places, idem_ring_1');
is($publisher->safe_psql('postgres', q{SELECT count(*) FROM pg_publication_tables WHERE tablename LIKE 'idem_ring_1%'}), 7, 'idem_keys stands for the windows, too');

# The tables are those that idem_ring_create makes; the rows are the publisher's.
create_ring($subscriber, 'postgres', 6);
$subscriber->safe_psql('postgres', q{TRUNCATE idem_scopes, idem_scope_places, idem_ring_registry, idem_ring_1});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION ring CONNECTION '$connection' PUBLICATION ring WITH (two_phase = true)");
$subscriber->wait_for_subscription_sync($publisher, 'ring');
is(states($subscriber), 'sealed sealed open empty empty empty', 'the subscriber has the windows, and nothing in its filter');
are_kept($subscriber, 'copied', $keys);

# --- What is streamed ---------------------------------------------------------------------------------------------------------------

my $session = $subscriber->background_psql('postgres', on_error_stop => 0);
sub known
{
    my ($name) = @_;
    catch_up();
    are_kept($session, "$name: a session from before", $keys);
    are_kept($subscriber, "$name: a new session", $keys);
    return;
}
sub claims
{
    my ($name) = @_;
    is(claim_keys($publisher, $name, 100), 100, "keys \"$name\" are claimed");
    $keys->{$name} = 100;
    return;
}
known('at first');
claims('fourth');
known('claims in the open window');
rotate($publisher);
claims('fifth');
known('a rotation, and claims after it');
is(states($subscriber), 'sealed sealed sealed open empty empty', 'the subscriber rotates as the publisher does');

# Rows that are committed after their window was sealed, one of them prepared, and after the subscriber has filled its own filter.
my $open = $publisher->background_psql('postgres');
$open->query_safe(q{BEGIN; SELECT idem_claim('late-1', scope => 'ring')});
$publisher->safe_psql('postgres', q{BEGIN; SELECT idem_claim('prepared-1', scope => 'ring'); PREPARE TRANSACTION 'holder'});
rotate($publisher);
claims('sixth');
catch_up();
is($subscriber->safe_psql('postgres', q{SELECT idem_try_claim('prepared-1', scope => 'ring')}), 'in_flight', 'what is prepared is in flight');
$subscriber->safe_psql('postgres', q{SELECT idem_ring_rebuild_filter('events')});
is(states($subscriber), 'sealed+ sealed+ sealed+ sealed open empty', 'the subscriber fills its own filter, but for the window in which a row is prepared');
known('with the filter');
$publisher->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
catch_up();
$keys->{'prepared'} = 1;
known('what was prepared is committed');
$subscriber->safe_psql('postgres', q{SELECT idem_ring_rebuild_filter('events')});
is(states($subscriber), 'sealed+ sealed+ sealed+ sealed+ open empty', 'now the filter covers that window, too');
known('with the filter, again');
$open->query_safe('COMMIT');
$open->quit;
$keys->{late} = 1;
known('a row that arrives in a window that the filter covers');
is(states($subscriber), 'sealed+ sealed+ sealed+ sealed open empty', 'and does so no more');

$publisher->safe_psql('postgres', q{SELECT idem_forget('first-2000', 'ring'), idem_forget('sixth-100', 'ring')});
$keys->{first} = 1999;
$keys->{sixth} = 99;
known('forgotten keys');
is($subscriber->safe_psql('postgres', q{SELECT count(*) FROM idem_lookup('first-2000', 'ring')}), 0, 'are forgotten on the subscriber');
$publisher->safe_psql('postgres', q{TRUNCATE idem_ring_1_1});
my $second = delete $keys->{second};
claims('seventh');
known('a window that was emptied');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM idem_ring_1_1'), 0, 'is emptied on the subscriber');

# --- The switch ------------------------------------------------------------------------------------------------------------------------

catch_up();
$publisher->stop;
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION ring DISABLE; ALTER SUBSCRIPTION ring SET (slot_name = NONE); DROP SUBSCRIPTION ring');
are_kept($session, 'switched: a session from before', $keys);
are_kept($subscriber, 'switched', $keys);
is(claim_keys($subscriber, 'new', 100), 100, 'switched: new keys are granted');
$keys->{new} = 100;
rotate($subscriber);
is(states($subscriber), 'sealed+ empty sealed+ sealed+ sealed+ open', 'switched: rotation goes on');
are_kept($session, 'switched, rotated: a session from before', $keys);
are_kept($subscriber, 'switched, rotated', $keys);
$session->quit;
check_indexes($subscriber, $_, "the indexes of $_ agree with the table") foreach map { "idem_ring_1_$_" } 0 .. 5;

$subscriber->stop;
done_testing();
