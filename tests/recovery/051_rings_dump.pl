# A ring that is dumped in the midst of its windows and restored: keys are duplicates, scopes live in the ring, rotation goes on, and DROP
# EXTENSION takes all of it along. The same holds for a database that was made from it as a template.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('ring', conf => "fsync = off\nautovacuum = off\n");
my $keys = fill_ring($node);
# A scope that has left the ring and has keys in both places, and scopes without a ring.
$node->safe_psql('postgres', <<'SQL');
SELECT idem_scope_set('leaving', ring => 'events');
SELECT idem_claim('left', scope => 'leaving'), idem_claim('elsewhere', scope => 'other'), idem_claim('none');
SELECT idem_scope_reset('leaving', 'ring');
SELECT idem_claim('after', scope => 'leaving');
SQL

sub dump_to
{
    my ($name, @options) = @_;
    my $file = $node->basedir . "/$name";
    $node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $file, @options ], join ' ', 'pg_dump', @options);
    return $file;
}

sub restore_to
{
    my ($database, $file, @options) = @_;
    my @command =
      $file =~ /archive/
      ? ('pg_restore', '--exit-on-error', @options, '-d', $node->connstr($database), $file)
      : ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @options, '-d', $node->connstr($database), '-f', $file);
    $node->command_ok(\@command, "$database: the restore");
    return;
}

# Drops the extension at the end: once for each database.
sub check_database
{
    my ($database, $states) = @_;
    is(states($node, $database), $states, "$database: the windows");
    are_kept($node, "$database", $keys, $database);
    my $others = q{SELECT idem_claim('left', scope => 'leaving'), idem_claim('after', scope => 'leaving'), idem_claim('elsewhere', scope => 'other'), idem_claim('none')};
    is($node->safe_psql($database, $others), 'f|f|f|f', "$database: so are keys outside of it");
    is(claim_keys($node, 'new', 50, $database), 50, "$database: new keys are granted");
    is($node->safe_psql($database, q{SELECT count(*) FROM ONLY idem_ring_1_2 WHERE key LIKE 'new-%'}), 50, "$database: in the ring's open window");
    is(sqlstate($node, q{SELECT idem_claim('x', '1 min', 'ring')}, $database), '22023', "$database: whose retention holds");
    rotate($node, $database);
    is(states($node, $database), 'sealed+ sealed+ sealed+ open', "$database: rotation goes on");
    are_kept($node, "$database, rotated", { %$keys, new => 50 }, $database);
    is($node->safe_psql($database, $others), 'f|f|f|f', "$database, rotated: keys outside of it");
    is( $node->safe_psql($database, q{SELECT string_agg(check_name || ' ' || detail, ',') FILTER (WHERE level NOT IN ('ok', 'notice')) FROM idem_health()}), '',
        "$database: all is well");
    $node->safe_psql($database, 'DROP EXTENSION idem');
    is($node->safe_psql($database, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'idem\_%'}), 0, "$database: DROP EXTENSION leaves nothing behind");
    return;
}

my $script = dump_to('script.sql');
my $archive = dump_to('archive', '-Fc');
my $directory = dump_to('archive_directory', '-Fd', '-j', '2');
my $inserts = dump_to('inserts.sql', '--inserts');
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(from_script from_archive from_directory from_inserts);
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE postgres');
$node->safe_psql('postgres', 'CREATE DATABASE copied_files TEMPLATE postgres STRATEGY file_copy')
  if $node->pg_version >= 15;
restore_to('from_script', $script);
restore_to('from_archive', $archive);
restore_to('from_directory', $directory, '-j', '2');
restore_to('from_inserts', $inserts, '-1');

# A dump loses that the ring's tables go with the extension. docs/operations.md (Uninstalling) says how to record it again without waiting for a rotation.
is(sqlstate($node, 'DROP EXTENSION idem', 'from_archive'), '2BP01', 'restored: DROP EXTENSION refuses until the ring has turned');
$node->safe_psql('from_archive', 'BEGIN; SELECT idem_ring_adopt(id) FROM idem_ring_registry; DROP EXTENSION idem; ROLLBACK');
pass('restored: or until its tables were adopted');

check_database($_, 'sealed sealed open empty') foreach qw(from_script from_archive from_directory from_inserts);
check_database($_, 'sealed+ sealed+ open empty') foreach $node->pg_version >= 15 ? qw(copied copied_files) : 'copied';
are_kept($node, 'the database that was dumped', $keys);

$node->stop;
done_testing();
