# What operators do to the tables of a ring and to its filter: no key that is still stored is granted again, neither to sessions that
# knew the ring before nor to new ones, and the sweeper brings the filter back.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\n");
my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION '$space'");
my $keys = fill_ring($node);
my $sealed = 'sealed+ sealed+ open empty';

# A session that stays, and so remembers the ring from its earlier claims.
my $session = $node->background_psql('postgres', on_error_stop => 0);
sub kept
{
    my ($name) = @_;
    are_kept($session, "$name: a session from before", $keys);
    are_kept($node, "$name: a new session", $keys);
    return;
}
kept('at first');

# What an operator runs, and the windows that the filter covers afterwards.
foreach my $case (
    [ 'VACUUM (FREEZE, ANALYZE)', $sealed ],
    [ 'VACUUM (FULL) idem_ring_1', 'sealed sealed open empty' ],
    [ 'VACUUM (FULL) idem_ring_1_0', 'sealed sealed+ open empty' ],
    [ 'CLUSTER idem_ring_1_0 USING idem_ring_1_0_pkey', 'sealed sealed+ open empty' ],
    [ 'CLUSTER', 'sealed sealed+ open empty' ],
    [ 'CLUSTER idem_ring_1 USING idem_ring_1_pkey', 'sealed sealed open empty' ],
    [ 'REINDEX INDEX idem_ring_1_filter', 'sealed sealed open empty' ],
    [ 'REINDEX INDEX CONCURRENTLY idem_ring_1_filter', 'sealed sealed open empty' ],
    [ 'REINDEX TABLE idem_ring_1', 'sealed sealed open empty' ],
    [ 'REINDEX TABLE CONCURRENTLY idem_ring_1', 'sealed sealed open empty' ],
    [ 'REINDEX TABLE CONCURRENTLY idem_ring_1_0', $sealed ],
    [ 'REINDEX TABLE idem_ring_1_2', $sealed ],
    [ 'REINDEX DATABASE postgres', 'sealed sealed open empty' ],
    [ 'BEGIN; REINDEX INDEX idem_ring_1_filter; ROLLBACK', $sealed ],
    [ 'ALTER TABLE idem_ring_1_0 SET TABLESPACE other', 'sealed sealed+ open empty' ],
    [ 'ALTER TABLE idem_ring_1_2 SET TABLESPACE other', $sealed ],
    [ 'ALTER TABLE idem_ring_1 SET TABLESPACE other', $sealed ],
    [ 'ALTER INDEX idem_ring_1_filter SET TABLESPACE other', $sealed ],
    [ 'ALTER INDEX idem_ring_1_0_pkey SET TABLESPACE other', $sealed ],
    [ 'BEGIN; TRUNCATE idem_ring_1_0; ROLLBACK', $sealed ],
    [ 'DROP INDEX idem_ring_1_filter', 'sealed sealed open empty' ],
    [ 'CREATE INDEX idem_ring_1_filter ON idem_ring_1 USING idem_filter (number)', 'sealed sealed open empty' ])
{
    my ($sql, $expected) = @$case;
    $node->safe_psql('postgres', $sql);
    kept($sql);
    is(states($node), $expected, "$sql: the windows that the filter covers");
    sweep($node);
    kept("$sql, swept");
    is(states($node), $sql =~ /^DROP/ ? 'sealed sealed open empty' : $sealed, "$sql, swept: the windows that the filter covers");
}

# --- Where an operator's session would put tables is not where a ring's are ------------------------------------------------------

$node->safe_psql('postgres', q{CREATE ROLE operator; GRANT CREATE ON SCHEMA public TO operator; SELECT idem_grant('operator', true)});
my $elsewhere = q{SET default_tablespace = other; SET default_table_access_method = heap2; SET ROLE operator;};
$node->safe_psql('postgres', 'CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler');
$node->safe_psql('postgres', "$elsewhere SELECT idem_ring_create('there', '1 hour', 3)");
$node->safe_psql('postgres', "DROP INDEX idem_ring_1_filter; $elsewhere SELECT idem_ring_rebuild_filter('events')");
is( $node->safe_psql('postgres', q{SELECT relname FROM pg_class LEFT JOIN pg_am a ON a.oid = relam WHERE (reltablespace <> 0 OR amname = 'heap2')
        AND (relname LIKE 'idem\_ring\_2%' OR relname = 'idem_ring_1_filter')}),
    '', 'tables and filters are in the default tablespace, with the access method heap');
$node->safe_psql('postgres', q{SELECT idem_ring_drop('there')});
sweep($node);
kept('a filter that an operator has made');

# --- What an operator takes away is gone, and nothing else is --------------------------------------------------------------------

$node->safe_psql('postgres', 'TRUNCATE idem_ring_1_1');
my $second = delete $keys->{second};
kept('TRUNCATE of a sealed window');
is(granted_again($node, 'second', $second) > 0, 1, 'TRUNCATE of a sealed window: its own keys are gone');
is(claim_keys($node, 'second', $second), $second, 'and can be claimed');
$keys->{second} = $second;
kept('and then are kept');
rotate($node);
kept('and in the filter');
is(states($node), 'sealed+ empty sealed+ open', 'which covers all that is sealed; a window without keys is taken off');
$node->safe_psql('postgres', 'TRUNCATE idem_ring_1_3');
kept('TRUNCATE of the open window');
is(claim_keys($node, 'fourth', 100), 100, 'which takes keys afterwards');
$keys->{fourth} = 100;

# Rows that arrive other than by a claim, in windows that the filter covers.
my $dir = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', <<"SQL");
INSERT INTO idem_ring_1_0 SELECT * FROM (SELECT (jsonb_populate_record(k, jsonb_build_object('key', 'inserted-' || i))).* FROM ONLY idem_ring_1_3 k, generate_series(1, 100) i WHERE k.key = 'fourth-1') r;
COPY idem_ring_1_3 TO PROGRAM 'sed s/fourth/copied/ > $dir/copied';
COPY idem_ring_1_2 FROM '$dir/copied';
UPDATE idem_ring_1_2 SET key = 'renamed-1' WHERE key = 'third-1';
SQL
$keys->{$_} = 100 foreach qw(inserted copied);
$keys->{renamed} = 1;
my $third = delete $keys->{third};
kept('rows that arrived by INSERT, COPY and UPDATE');
is(states($node), 'sealed empty sealed open', 'the filter does not cover their windows');
sweep($node);
kept('rows that arrived, swept');
is(states($node), 'sealed+ empty sealed+ open', 'until the next sweep');
# A rollback does not bring the window back into the filter.
$node->safe_psql('postgres', q{BEGIN; UPDATE idem_ring_1_2 SET key = 'renamed-2' WHERE key = 'third-2'; ROLLBACK});
kept('a row that was taken back');
$node->safe_psql('postgres', q{UPDATE idem_ring_1_2 SET key = 'renamed-2' WHERE key = 'third-2'});
$keys->{renamed} = 2;
kept('and came again');
is(sqlstate($node, 'INSERT INTO idem_ring_1_0 SELECT * FROM ONLY idem_ring_1_0 LIMIT 1'), '23505', 'a window has a key once');
is(sqlstate($node, 'INSERT INTO idem_ring_1_1 SELECT * FROM ONLY idem_ring_1_0 LIMIT 1'), '55000', 'one that nobody looks in takes none');
kept('rows that were refused');

$session->quit;
$node->command_ok([ 'pg_amcheck', '--all', '--install-missing', '--heapallindexed', '--parent-check', '--rootdescend' ], 'pg_amcheck finds nothing wrong');
$node->stop;
done_testing();
