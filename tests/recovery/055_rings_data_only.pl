# The data of a ring restored apart from its definitions: after --schema-only, and into a ring that was created before.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\n");
my $keys = fill_ring($node);

my $dump = $node->basedir . '/dump';
my @from = ('-d', $node->connstr('postgres'));
$node->command_ok([ 'pg_dump', @from, '--schema-only', '-f', "$dump.schema" ], 'pg_dump --schema-only');
$node->command_ok([ 'pg_dump', @from, '--data-only', '-f', "$dump.data" ], 'pg_dump --data-only');
$node->command_ok([ 'pg_dump', @from, '-Fc', '-f', "$dump.archive" ], 'pg_dump as an archive');

sub restore
{
    my ($database, @command) = @_;
    my $file = pop @command;
    my $done = run_log([ @command, '-d', $node->connstr($database), $command[0] eq 'psql' ? ('-f', $file) : $file ]);
    return ok($done, "$database: @command");
}
my @psql = qw(psql -X -q -v ON_ERROR_STOP=1);

sub check_database
{
    my ($database) = @_;
    is(states($node, $database), 'sealed sealed open empty', "$database: the windows");
    are_kept($node, $database, $keys, $database);
    is(claim_keys($node, 'new', 10, $database), 10, "$database: new keys are granted");
    rotate($node, $database);
    # The index of a window whose trigger does not fire for every row is searched, as it is not taken out of the filter for each.
    is(states($node, $database), $database eq 'untriggered' ? 'sealed sealed sealed open' : 'sealed+ sealed+ sealed+ open', "$database: rotation goes on");
    are_kept($node, "$database, rotated", { %$keys, new => 10 }, $database);
    my $disabled = $node->safe_psql($database, q{SELECT string_agg(DISTINCT tgfoid::regproc::text, ' ') FROM pg_trigger WHERE tgenabled <> 'A' AND tgname LIKE 'idem\_%'});
    is($disabled, '', "$database: every trigger is enabled as it was") unless $database eq 'untriggered';
    return;
}

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(script archive created untriggered);

restore('script', @psql, "$dump.schema");
check_database('script') if restore('script', @psql, "$dump.data");

restore('archive', qw(pg_restore --exit-on-error --schema-only), "$dump.archive");
check_database('archive') if restore('archive', qw(pg_restore --exit-on-error --data-only), "$dump.archive");

# The rows that idem_ring_create has inserted are in the dump, too.
$node->safe_psql('created', 'CREATE EXTENSION idem');
create_ring($node, 'created');
$node->safe_psql('created', 'TRUNCATE idem_scopes, idem_scope_places, idem_ring_registry, idem_ring_1');
check_database('created') if restore('created', @psql, "$dump.data");

restore('untriggered', qw(pg_restore --exit-on-error --schema-only), "$dump.archive");
check_database('untriggered') if restore('untriggered', qw(pg_restore --exit-on-error --data-only --disable-triggers), "$dump.archive");

$node->stop;
done_testing();
