# From this version to the next, which a fixture makes: what was stored is still there and works, also in sessions that were open, and the
# catalog is that of a fresh install. On the way, and afterwards, library and SQL are of different versions.

use strict;
use warnings;

use IdemCluster;
use IdemData;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# --- An installation of the server's own, with the scripts of later versions ------------------------------------------------

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
my $version = (slurp_file("$scripts/idem.control") =~ /^default_version *= *'(.*)'/m)[0];
my ($major) = split /\./, $version; # a library serves the SQL of its own
my $next = "$major.90.0";
system_or_bail('cp', "$here/upgrade/next.sql", "$scripts/idem--$version--$next.sql");
append_to_file("$scripts/idem--$version--$major.98.0.sql",
    q{CREATE FUNCTION idem_not_in_the_library() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME';});
append_to_file("$scripts/idem--$version--$major.99.0.sql", q{ALTER TABLE idem_keys ADD COLUMN of_tomorrow int;});

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

# --- This version, in use -----------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
CREATE DATABASE shop;
CREATE ROLE app;
CREATE ROLE "the operator";
CREATE ROLE piecemeal;
CREATE ROLE tenant;
CREATE ROLE stranger;
SQL
my $grants = q{SELECT idem_grant('app'), idem_grant('"the operator"', operator => true), idem_grant('tenant'), idem_grant('stranger')};
$node->safe_psql('shop', "CREATE EXTENSION idem; $grants; GRANT EXECUTE ON FUNCTION idem_claim, idem_forget TO piecemeal");
my $data = fill($node, 'shop');
$node->safe_psql('shop', q{BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'holder'});

# --- The update ------------------------------------------------------------------------------------------------------------

# A session that has used the extension, and one in the middle of a claim.
my $session = $node->background_psql('shop');
$session->query_safe(q{SELECT idem_try_claim('claimed')});
my $holder = $node->background_psql('shop');
$holder->query_safe(q{BEGIN; SELECT idem_claim('open')});
$node->safe_psql('shop', qq{SET statement_timeout = '60s'; ALTER EXTENSION idem UPDATE TO '$next'});
is($node->safe_psql('shop', "SELECT extversion FROM pg_extension WHERE extname = 'idem'"), $next, "updated to $next");
is($session->query_safe(q{SELECT idem_try_claim('claimed'), idem_try_claim('open')}), 'completed|in_flight',
    'a session from before the update goes on, and so does a holder');
$holder->query_safe('COMMIT');
is($session->query_safe(q{SELECT idem_try_claim('open')}), 'completed', 'which commits');
$_->quit foreach $session, $holder;
is($node->safe_psql('shop', q{SELECT idem_try_claim('prepared')}), 'in_flight', 'a transaction prepared before holds its key');
$node->safe_psql('shop', q{COMMIT PREPARED 'holder'});
is($node->safe_psql('shop', q{SELECT idem_try_claim('prepared')}), 'completed', 'and commits it');
$node->poll_query_until('shop', q{SELECT count(*) = 0 FROM idem_keys WHERE key = 'expired'});
pass('the worker sweeps');

sub may
{
    my ($database, $role, $sql) = @_;
    return sqlstate($node, qq{SET ROLE $role; $sql}, $database);
}

sub check_grants
{
    my ($database, $new) = @_;
    is(may($database, 'app', q{SELECT idem_try_claim('may')}), '00000', "$database: an application claims");
    is(may($database, 'app', 'CALL idem_sweep()'), '42501', "$database: it may not sweep");
    is(may($database, '"the operator"', 'CALL idem_sweep()'), '00000', "$database: an operator may");
    is(may($database, 'piecemeal', q{SELECT idem_claim('piece')}), '00000', "$database: single grants are kept");
    is(may($database, 'piecemeal', 'SELECT idem_of_tomorrow()'), '42501', "$database: and bring nothing new");
    is(may($database, 'app', 'SELECT idem_of_tomorrow()'), $new, "$database: what is new answers $new to an application");
}
check_grants('shop', '42501');
$node->safe_psql('shop', $grants);
check_grants('shop', '00000');

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

$node->safe_psql('postgres', 'CREATE DATABASE fresh; CREATE DATABASE "fresh, odd"; CREATE DATABASE odd');
$node->safe_psql('fresh', "CREATE EXTENSION idem VERSION '$next'; $grants; GRANT EXECUTE ON FUNCTION idem_claim, idem_forget TO piecemeal");
check_catalog('shop', 'fresh', 'the catalog of an updated database');

my $odd = '"Odd\'s $1, %s; --"';
$node->safe_psql('fresh, odd', "CREATE SCHEMA $odd; CREATE EXTENSION idem SCHEMA $odd VERSION '$next'");
$node->safe_psql('odd',
    "CREATE SCHEMA $odd; CREATE EXTENSION idem SCHEMA $odd; SET search_path = ''; ALTER EXTENSION idem UPDATE TO '$next'");
check_catalog('odd', 'fresh, odd', 'in a schema with an odd name, without grants');

# --- The data, and dumps -------------------------------------------------------------------------------------------------

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('shop'), '-f', $dump ], 'pg_dump of the updated database');
check_data($node, 'shop', $data, 1);
is($node->safe_psql('shop', q{SELECT string_agg(check_name, ',') FILTER (WHERE level <> 'ok') FROM idem_health()}), 'version',
    'all is well, but for the version');

# A dump names no version: where it is restored, the default one is created.
$node->safe_psql('postgres', 'CREATE DATABASE moved TEMPLATE template0');
my $restored = $node->basedir . '/restored.sql';
append_to_file($restored, slurp_file($dump) =~ s/(CREATE EXTENSION IF NOT EXISTS idem WITH SCHEMA public)/$1 VERSION '$next'/r);
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('moved'), '-f', $restored ],
    'the dump of the updated database restored');
check_grants('moved', '00000');
check_catalog('moved', 'fresh', 'the catalog after dump and restore');
check_data($node, 'moved', $data, 0);

# --- SQL that is newer than the library ---------------------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE DATABASE newer');
$node->safe_psql('newer', 'CREATE EXTENSION idem');
my $stderr;
isnt($node->psql('newer', qq{ALTER EXTENSION idem UPDATE TO '$major.98.0'}, stderr => \$stderr), 0, 'an update that the library is too old for');
like($stderr, qr/could not find function "idem_not_in_the_library" in file/, 'says what the library lacks');
is($node->safe_psql('newer', q{SELECT extversion, idem_claim('k') FROM pg_extension WHERE extname = 'idem'}), "$version|t",
    'and leaves everything as it was');
$node->safe_psql('newer', qq{ALTER EXTENSION idem UPDATE TO '$major.99.0'});
is(sqlstate($node, $_, 'newer'), '55000', "tables that the library does not know: $_")
  foreach q{SELECT idem_claim('k')}, q{SELECT idem_lookup('k')}, 'CALL idem_sweep()', q{SELECT idem_in_flight()};
$node->psql('newer', q{SELECT idem_claim('k')}, stderr => \$stderr);
like($stderr, qr/The library has version \Q$version\E, the extension's SQL in this database \Q$major\E\.99\.0/, 'the error names both versions');
is($node->safe_psql('newer', q{SELECT check_name FROM idem_health() WHERE level <> 'ok' AND check_name <> 'preload'}),
    lines('version', 'tables'), 'so does idem_health');
is($node->safe_psql('newer', q{SELECT idem_lock('l') IS NOT NULL}), 't', 'functions that need other tables go on working');

$node->stop;
done_testing();
