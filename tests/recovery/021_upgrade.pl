# From 0.1.0 to what is installed now: everything that 0.1.0 knew is still there and works, the catalog is that of a fresh install,
# and whoever could use idem can use what is new. On the way, library and SQL are of different versions.

use strict;
use warnings;

use IdemCluster;
use IdemData;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- An installation of the server's own, with the old version's script beside the new one's --------------------------------

sub configured
{
    my ($stdout) = run_command([ 'pg_config', "--$_[0]" ]);
    chomp $stdout;
    return $stdout;
}

my $root = PostgreSQL::Test::Utils::tempdir();
my ($bindir, $sharedir) = (configured('bindir'), configured('sharedir'));
foreach my $dir ($bindir, configured('pkglibdir'), $sharedir)
{
    system_or_bail('mkdir', '-p', "$root$dir");
    system_or_bail('cp', '-R', "$dir/.", "$root$dir");
}
my ($here) = __FILE__ =~ m{^(.*)/}s ? $1 : '.';
my $scripts = "$root$sharedir/extension";
system_or_bail('cp', "$here/upgrade/idem--0.1.0.sql", $scripts);

my $version = (slurp_file("$scripts/idem.control") =~ /^default_version *= *'(.*)'/m)[0];

my $node = PostgreSQL::Test::Cluster->new('upgrade', install_path => "$root$bindir" =~ s{/bin$}{}r);
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'idem'
idem.databases = 'shop'
idem.sweep_interval = 200ms
max_prepared_transactions = 2
wal_level = logical
CONF
$node->start;

# --- The new library works with the old SQL ----------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE shop;
CREATE ROLE app;
CREATE ROLE "the operator";
CREATE ROLE piecemeal;
CREATE ROLE tenant;
CREATE ROLE stranger;
SQL
$node->safe_psql('shop', <<'SQL');
CREATE EXTENSION idem VERSION '0.1.0';
SELECT idem_grant('app'), idem_grant('"the operator"', operator => true), idem_grant('tenant'), idem_grant('stranger') \g /dev/null
GRANT EXECUTE ON FUNCTION idem_claim, idem_forget TO piecemeal;
SQL
my $data = fill($node, 'shop');
$node->safe_psql('shop', q{BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'holder'});

is($node->safe_psql('shop', "SELECT extversion FROM pg_extension WHERE extname = 'idem'"), '0.1.0', 'this is the old version');
is(sqlstate($node, 'CALL idem_sweep()', 'shop'), '42883', 'which has no sweep');
$node->wait_for_log(qr/extension "idem" in database "shop" is too old to be swept/);
is($node->safe_psql('shop', q{SELECT count(*) FROM idem_keys WHERE key = 'expired'}), '1', 'the worker says so and sweeps nothing');

# --- A dump of the old version, for later, and a copy on which the old SQL shows that it still works ------------------------

my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('shop'), '-f', "$dump-0.1.0.sql" ], 'pg_dump of 0.1.0');
$node->safe_psql('postgres', 'CREATE DATABASE "not updated" TEMPLATE template0');
my $restored = "$dump-old-again.sql";
append_to_file($restored, slurp_file("$dump-0.1.0.sql") =~ s/(CREATE EXTENSION IF NOT EXISTS idem WITH SCHEMA public)/$1 VERSION '0.1.0'/r);
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('not updated'), '-f', $restored ],
    'the same restored as 0.1.0');
check_data($node, 'not updated', $data, 0);

# --- The update ------------------------------------------------------------------------------------------------------------

# A session that has used the extension, and one in the middle of a claim.
my $session = $node->background_psql('shop');
$session->query_safe(q{SELECT idem_try_claim('claimed')});
my $holder = $node->background_psql('shop');
$holder->query_safe(q{BEGIN; SELECT idem_claim('open')});
$node->safe_psql('shop', q{SET statement_timeout = '60s'; ALTER EXTENSION idem UPDATE});
is($node->safe_psql('shop', "SELECT extversion FROM pg_extension WHERE extname = 'idem'"), $version, "updated to $version");
is($session->query_safe(q{SELECT idem_try_claim('claimed'), idem_try_claim('open')}), 'completed|in_flight',
    'a session from before the update goes on, and so does a holder');
$holder->query_safe('COMMIT');
is($session->query_safe(q{SELECT idem_try_claim('open')}), 'completed', 'who commits');
$_->quit foreach $session, $holder;
is($node->safe_psql('shop', q{SELECT idem_try_claim('prepared')}), 'in_flight', 'a transaction prepared before holds its key');
$node->safe_psql('shop', q{COMMIT PREPARED 'holder'});
is($node->safe_psql('shop', q{SELECT idem_try_claim('prepared')}), 'completed', 'and commits it');

# Who may do what is new.
sub may
{
    my ($database, $role, $sql) = @_;
    return sqlstate($node, qq{SET ROLE $role; $sql}, $database);
}

sub check_new_grants
{
    my ($database) = @_;
    my $now = "$database: after the update";
    is(may($database, 'app', 'SELECT * FROM idem_stats'), '00000', "$now an application reads idem_stats");
    is(may($database, 'app', 'CALL idem_sweep()'), '42501', "$now it may not sweep");
    is(may($database, 'app', 'SELECT idem_in_flight()'), '42501', "$now nor see who is in flight");
    is(may($database, '"the operator"', $_), '00000', "$now an operator may: $_")
      foreach 'CALL idem_sweep()', 'SELECT * FROM idem_sweep_progress', 'SELECT * FROM idem_stats', 'SELECT idem_in_flight()',
      'SELECT idem_health()', 'SELECT idem_stats_reset()';
    is(may($database, 'piecemeal', $_), '42501', "$now no more for who had single functions: $_")
      foreach 'SELECT * FROM idem_stats', 'CALL idem_sweep()', 'SELECT idem_health()';
    is(may($database, 'piecemeal', q{SELECT idem_claim('piece')}), '00000', "$now who keeps them");
}

$node->poll_query_until('shop', q{SELECT count(*) = 0 FROM idem_keys WHERE key = 'expired'});
pass('the worker sweeps');
check_new_grants('shop');

# --- Its catalog is that of a fresh install ------------------------------------------------------------------------------

my $catalog = <<'SQL';
SET search_path = pg_catalog;
WITH extension AS (SELECT * FROM pg_extension WHERE extname = 'idem'),
member AS (SELECT d.classid, d.objid FROM pg_depend d, extension e
            WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'),
relation AS (SELECT c.* FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid)
SELECT line FROM (
    SELECT concat_ws(' | ', 'extension', extversion, extrelocatable, extnamespace::regnamespace,
                     (SELECT string_agg(format('%s %s', c::regclass, w), ', ' ORDER BY c::regclass::text)
                        FROM unnest(extconfig, extcondition) AS config (c, w))) AS line FROM extension
    UNION ALL
    SELECT concat_ws(' | ', 'member', i.type, i.identity, obj_description(objid, classid::regclass::name))
      FROM member, pg_identify_object(classid, objid, 0) i
    UNION ALL
    SELECT concat_ws(' | ', 'dependency', o.type, o.identity, d.deptype, r.type, r.identity)
      FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) o, pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) r
     WHERE ((d.classid, d.objid) IN (SELECT * FROM member)
            OR (d.refclassid, d.refobjid) IN (SELECT * FROM member) AND d.deptype IN ('a', 'i'))
       AND o.identity !~ 'pg_toast'
    UNION ALL
    SELECT concat_ws(' | ', 'function', p.oid::regprocedure, p.prokind, p.proowner::regrole, p.prorows, p.procost,
                     coalesce(p.probin, ''), pg_get_functiondef(p.oid))
      FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
    UNION ALL
    SELECT concat_ws(' | ', 'function acl', p.oid::regprocedure, a.grantor::regrole, nullif(a.grantee, 0)::regrole, a.privilege_type, a.is_grantable)
      FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    UNION ALL
    SELECT concat_ws(' | ', 'initial acl', i.type, i.identity, a.grantor::regrole, nullif(a.grantee, 0)::regrole, a.privilege_type, a.is_grantable)
      FROM pg_init_privs p JOIN member m ON (p.classoid, p.objoid) = (m.classid, m.objid), aclexplode(p.initprivs) a,
           pg_identify_object(p.classoid, p.objoid, p.objsubid) i
    UNION ALL
    SELECT concat_ws(' | ', 'relation', r.oid::regclass, r.relkind, r.relpersistence, r.relowner::regrole, r.relreplident, r.reloptions,
                     r.relrowsecurity, r.relhastriggers, am.amname,
                     CASE r.relkind WHEN 'v' THEN pg_get_viewdef(r.oid)
                                    WHEN 'S' THEN (SELECT s::text FROM (SELECT seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle
                                                                          FROM pg_sequence WHERE seqrelid = r.oid) s) END)
      FROM relation r LEFT JOIN pg_am am ON am.oid = r.relam
    UNION ALL
    SELECT concat_ws(' | ', 'relation acl', r.oid::regclass, a.grantor::regrole, nullif(a.grantee, 0)::regrole, a.privilege_type)
      FROM relation r, aclexplode(coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", r.relowner))) a
    UNION ALL
    SELECT concat_ws(' | ', 'column', r.oid::regclass, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attstattarget,
                     attcollation::regcollation, attacl, attisdropped, pg_get_expr(adbin, adrelid), col_description(r.oid, attnum))
      FROM relation r JOIN pg_attribute ON attrelid = r.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attnum > 0
    UNION ALL
    SELECT concat_ws(' | ', 'constraint', r.oid::regclass, conname, pg_get_constraintdef(c.oid), obj_description(c.oid, 'pg_constraint'))
      FROM relation r JOIN pg_constraint c ON conrelid = r.oid
    UNION ALL
    SELECT concat_ws(' | ', 'index', pg_get_indexdef(indexrelid), obj_description(indexrelid, 'pg_class')) FROM relation r JOIN pg_index ON indrelid = r.oid
    UNION ALL
    SELECT concat_ws(' | ', 'trigger', pg_get_triggerdef(t.oid), tgenabled, obj_description(t.oid, 'pg_trigger'))
      FROM relation r JOIN pg_trigger t ON tgrelid = r.oid WHERE NOT tgisinternal
    UNION ALL
    SELECT concat_ws(' | ', 'label', enumtypid::regtype, row_number() OVER (PARTITION BY enumtypid ORDER BY enumsortorder), enumlabel)
      FROM pg_enum JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = enumtypid
    UNION ALL
    SELECT concat_ws(' | ', 'type', t.oid::regtype, typtype, typnotnull, attnum, attname, format_type(atttypid, atttypmod), col_description(typrelid, attnum))
      FROM pg_type t JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0
) catalog ORDER BY line
SQL

sub catalog_of { return [ split /\n/, $node->safe_psql($_[0], $catalog) ] }

sub check_catalog
{
    my ($database, $fresh, $name) = @_;
    my ($got, $expected) = (catalog_of($database), catalog_of($fresh));
    cmp_ok(scalar @$expected, '>', 600, "$name: there is something to compare");
    my (%got, %expected);
    $got{$_}++ foreach @$got;
    $expected{$_}++ foreach @$expected;
    is_deeply([ grep { !$expected{$_} } @$got ], [], "$name: nothing that a fresh install lacks");
    is_deeply([ grep { !$got{$_} } @$expected ], [], "$name: nothing is missing");
    is(scalar @$got, scalar @$expected, "$name: nor there twice");
}

# The same grants, given by the new version.
my $grants = q{SELECT idem_grant('app'), idem_grant('"the operator"', operator => true), idem_grant('tenant'), idem_grant('stranger')};
$node->safe_psql('postgres', 'CREATE DATABASE fresh; CREATE DATABASE "fresh, odd"; CREATE DATABASE odd');
$node->safe_psql('fresh', "CREATE EXTENSION idem; $grants; GRANT EXECUTE ON FUNCTION idem_claim, idem_forget TO piecemeal");
check_catalog('shop', 'fresh', 'the catalog of an updated database');

my $odd = '"Odd\'s $1, %s; --"';
$node->safe_psql('fresh, odd', "CREATE SCHEMA $odd; CREATE EXTENSION idem SCHEMA $odd");
$node->safe_psql('odd',
    "CREATE SCHEMA $odd; CREATE EXTENSION idem SCHEMA $odd VERSION '0.1.0'; SET search_path = ''; ALTER EXTENSION idem UPDATE");
check_catalog('odd', 'fresh, odd', 'in a schema with an odd name, without grants');

# --- The data, and dumps -------------------------------------------------------------------------------------------------

$node->command_ok([ 'pg_dump', '-d', $node->connstr('shop'), '-f', "$dump-updated.sql" ], 'pg_dump of the updated database');
check_data($node, 'shop', $data, 1);
is($node->safe_psql('shop', q{SELECT string_agg(check_name, ',') FILTER (WHERE NOT ok) FROM idem_health()}), '', 'all is well');

$node->safe_psql('postgres', 'CREATE DATABASE moved TEMPLATE template0; CREATE DATABASE skipped TEMPLATE template0');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('moved'), '-f', "$dump-updated.sql" ],
    'the dump of the updated database restored');
check_new_grants('moved');
check_catalog('moved', 'fresh', 'the catalog after dump and restore');
check_data($node, 'moved', $data, 0);

$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('skipped'), '-f', "$dump-0.1.0.sql" ],
    "a dump of 0.1.0 restored where $version is installed");
is($node->safe_psql('skipped', "SELECT extversion FROM pg_extension WHERE extname = 'idem'"), $version, "is $version");
is(may('skipped', 'app', 'SELECT * FROM idem_stats'), '42501', 'a dump grants what it knew');
$node->safe_psql('skipped', $grants);
check_catalog('skipped', 'fresh', 'the catalog when idem_grant was called again');
check_data($node, 'skipped', $data, 0);

# --- SQL that is newer than the library ---------------------------------------------------------------------------------

append_to_file("$scripts/idem--$version--98.0.sql",
    q{CREATE FUNCTION idem_of_tomorrow() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME';});
append_to_file("$scripts/idem--$version--99.0.sql", q{ALTER TABLE idem_keys ADD COLUMN of_tomorrow int;});
my $stderr;
isnt($node->psql('fresh', q{ALTER EXTENSION idem UPDATE TO '98.0'}, stderr => \$stderr), 0, 'an update that the library is too old for');
like($stderr, qr/could not find function "idem_of_tomorrow" in file/, 'says what the library lacks');
is($node->safe_psql('fresh', q{SELECT extversion, idem_claim('k') FROM pg_extension WHERE extname = 'idem'}), "$version|t",
    'and leaves everything as it was');
$node->safe_psql('fresh', q{ALTER EXTENSION idem UPDATE TO '99.0'});
is(sqlstate($node, $_, 'fresh'), '55000', "tables that the library does not know: $_")
  foreach q{SELECT idem_claim('k')}, q{SELECT idem_lookup('k')}, 'CALL idem_sweep()', q{SELECT idem_in_flight()};
$node->psql('fresh', q{SELECT idem_claim('k')}, stderr => \$stderr);
like($stderr, qr/The library has version \Q$version\E, the extension's SQL in this database 99\.0/, 'the error names both versions');
is( $node->safe_psql('fresh', q{SELECT check_name FROM idem_health() WHERE NOT ok AND check_name <> 'preload'}),
    lines('version', 'tables'), 'so does idem_health');

$node->stop;
done_testing();
