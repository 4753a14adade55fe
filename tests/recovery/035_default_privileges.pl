# Whatever ALTER DEFAULT PRIVILEGES says, the installation leaves exactly the intended privileges on every object of the extension, for every
# role. idem_grant and idem_revoke add and take away theirs, a dump carries them, an update keeps them, and health reports all others.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('defaults');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE ro; CREATE ROLE app; CREATE ROLE ops; CREATE ROLE tenant');

my $pure = join ', ', map { "'$_'" } qw(idem_key idem_fingerprint idem_fingerprint_text idem_fingerprint_bytes idem_next_id idem_id_parts
  idem_uuid_v7 idem_can_transition idem_check_transition idem_request_message idem_version);

# One row for each privilege that a role has on an object of the extension.
my $privileges = <<'SQL';
CREATE TEMP VIEW members AS
    SELECT classid, objid FROM pg_depend
     WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem');
CREATE TEMP VIEW objects AS
    SELECT 'f'::"char" AS kind, p.oid::regprocedure::text AS name, proname, proowner AS owner, proacl AS acl
      FROM pg_proc p JOIN members ON classid = 'pg_proc'::regclass AND objid = p.oid
    UNION ALL
    SELECT CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.oid::regclass::text, relname, relowner, relacl
      FROM pg_class c JOIN members ON classid = 'pg_class'::regclass AND objid = c.oid
    UNION ALL
    SELECT 'T', t.oid::regtype::text, typname, typowner, typacl
      FROM pg_type t JOIN members ON classid = 'pg_type'::regclass AND objid = t.oid;
CREATE TEMP VIEW privileges AS
    SELECT kind, name, CASE grantee WHEN 0 THEN 'public' WHEN owner THEN 'owner' ELSE grantee::regrole::text END AS role,
           privilege_type AS privilege, is_grantable
      FROM objects, aclexplode(coalesce(acl, acldefault(kind, owner)));
SQL

# What the installation gives: everything to the owner, and the pure functions and the types to PUBLIC.
my $intended = <<"SQL";
CREATE TEMP VIEW intended AS
    SELECT kind, name, 'owner' AS role, privilege_type AS privilege, is_grantable
      FROM objects, aclexplode(acldefault(kind, owner)) WHERE grantee = owner
    UNION ALL
    SELECT kind, name, 'public', CASE kind WHEN 'f' THEN 'EXECUTE' ELSE 'USAGE' END, false
      FROM objects WHERE kind = 'T' OR kind = 'f' AND proname IN ($pure);
SQL

# Empty where the privileges are the intended ones, in that database or for that role.
sub differences
{
    my ($database, $roles) = @_;
    $roles //= 'true';
    return $node->safe_psql($database, <<"SQL");
$privileges $intended
SELECT * FROM (SELECT 'too many', * FROM (SELECT * FROM privileges EXCEPT SELECT * FROM intended) p
               UNION ALL SELECT 'missing', * FROM (SELECT * FROM intended EXCEPT SELECT * FROM privileges) m) d WHERE $roles ORDER BY name, role LIMIT 20
SQL
}

sub privileges_of
{
    my ($database, $role) = @_;
    return $node->safe_psql($database, "$privileges SELECT name, privilege, is_grantable FROM privileges WHERE role = '$role' ORDER BY name, privilege");
}

sub health { return $node->safe_psql($_[0], q{SELECT level, detail FROM idem_health() WHERE check_name = 'privileges'}) }

# --- Defaults of every kind -----------------------------------------------------------------------------------------------

$node->safe_psql('postgres', 'CREATE DATABASE plain');
$node->safe_psql('plain', 'CREATE EXTENSION idem');
is(differences('plain'), '', 'without defaults');
is($node->safe_psql('plain', "$privileges SELECT string_agg(DISTINCT classid::regclass::text, ',') FROM members"), 'pg_am,pg_class,pg_opclass,pg_opfamily,pg_proc,pg_type',
    'no member is of another kind');

my %kinds = (
    TABLES => 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER', SEQUENCES => 'USAGE, SELECT, UPDATE', FUNCTIONS => 'EXECUTE',
    ROUTINES => 'EXECUTE', TYPES => 'USAGE', SCHEMAS => 'USAGE, CREATE');
my %defaults;
foreach my $kind (sort keys %kinds)
{
    foreach my $where ('', 'IN SCHEMA public')
    {
        next if $kind eq 'SCHEMAS' && $where;
        my $change = "ALTER DEFAULT PRIVILEGES $where";
        my $name = lc($where ? "${kind}_in_schema" : $kind);
        $defaults{"open_$name"} = join ';', map { "$change GRANT $kinds{$kind} ON $kind TO $_" } 'ro', 'app', 'PUBLIC', 'tenant WITH GRANT OPTION';
        $defaults{"closed_$name"} = join ';', map { "$change REVOKE ALL ON $kind FROM $_" } 'PUBLIC', 'CURRENT_USER';
    }
}
foreach my $way ('open', 'closed')
{
    $defaults{"${way}_all"} = join ';', map { $defaults{$_} } grep { /^${way}_/ } sort keys %defaults;
}
foreach my $name (sort keys %defaults)
{
    $node->safe_psql('postgres', "CREATE DATABASE $name");
    $node->safe_psql($name, "$defaults{$name}; CREATE EXTENSION idem");
    is(differences($name), '', "$name: the privileges are the intended ones");
    is(health($name) =~ s/\|.*//r, 'ok', "$name: health agrees");
}

$node->safe_psql('postgres', 'CREATE DATABASE nested');
$node->safe_psql('nested', "$defaults{open_all}; BEGIN; SAVEPOINT s; CREATE TABLE t (); SAVEPOINT t; CREATE EXTENSION idem; COMMIT");
is(differences('nested'), '', 'in a subtransaction');

is(sqlstate($node, "SET ROLE $$_[0]; $$_[1]", 'open_all'), '42501', "$$_[0] cannot $$_[1]")
  foreach [ ro => 'SELECT * FROM idem_token_secrets' ], [ ro => 'SELECT * FROM idem_webhook_sources' ], [ ro => 'SELECT * FROM idem_keys' ], [ app => 'DELETE FROM idem_keys' ],
  [ app => q{INSERT INTO idem_api_keys VALUES ('k', now(), 'infinity', '\x00')} ], [ app => q{SELECT idem_forget('k')} ],
  [ app => 'SELECT idem_token_rotate_secret(true)' ], [ app => q{SELECT setval('idem_fence_high_water', 1)} ],
  [ app => 'SELECT * FROM idem_dead_letters' ];

# --- Grants of idem_grant -------------------------------------------------------------------------------------------------

$node->safe_psql($_, q{SELECT idem_grant('app'), idem_grant('ops', true)}) foreach 'plain', 'open_all';
is(differences('open_all', q{role NOT IN ('app', 'ops')}), '', 'a grant to two roles is for nobody else');
is(privileges_of('open_all', $_), privileges_of('plain', $_), "$_ has the same as without defaults") foreach 'app', 'ops';
is(privileges_of('plain', 'app') =~ s/.*\bidem_stats\|(\w+).*/$1/sr, 'SELECT', 'applications read their view');
unlike(privileges_of('plain', 'app'), qr/^idem_(dead_letters|sweep_progress|keys)\|/m, 'and no other');
is(health('open_all') =~ s/\|.*//r, 'ok', 'health accepts what idem_grant gives');

# --- Dump and restore -----------------------------------------------------------------------------------------------------

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('open_all'), '-f', $dump ], 'pg_dump');
unlike(slurp_file($dump), qr/^(GRANT|REVOKE) .* (ro|tenant|PUBLIC)( WITH GRANT OPTION)?;$/m, 'a dump has no privileges of others');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restore');
is(differences('restored', q{role NOT IN ('app', 'ops')}), '', 'restored');
is(privileges_of('restored', $_), privileges_of('plain', $_), "$_ has the same again") foreach 'app', 'ops';

# --- An update: its script ends with the same call ------------------------------------------------------------------------

$node->safe_psql('open_all', <<'SQL');
BEGIN;
UPDATE pg_extension SET extversion = split_part(extversion, '.', 1) || '.99.0' WHERE extname = 'idem';
CREATE TABLE idem_later (a int);
CREATE SEQUENCE idem_later_too;
CREATE FUNCTION idem_latest() RETURNS int LANGUAGE sql AS 'SELECT 1';
ALTER EXTENSION idem ADD TABLE idem_later;
ALTER EXTENSION idem ADD SEQUENCE idem_later_too;
ALTER EXTENSION idem ADD FUNCTION idem_latest();
SELECT idem_set_privileges();
COMMIT;
SQL
is(differences('open_all', q{role NOT IN ('app', 'ops')}), '', 'new objects get the intended privileges');
is(privileges_of('open_all', $_), privileges_of('plain', $_), "$_ keeps its own, and gets no other") foreach 'app', 'ops';

# --- What else is granted -------------------------------------------------------------------------------------------------

my @strays = (
    'SELECT ON idem_keys', 'SELECT (secret) ON idem_token_secrets', 'UPDATE ON SEQUENCE idem_fence_high_water', 'INSERT ON idem_stats',
    q{EXECUTE ON FUNCTION idem_set_privileges()});
foreach my $stray (@strays)
{
    $node->safe_psql('plain', "GRANT $stray TO app");
    my ($object) = $stray =~ /(idem_\w+)/;
    like(health('plain'), qr/^warning\|.*\b$object\b.* to app/, "health reports $stray");
    $node->safe_psql('plain', "REVOKE $stray FROM app");
    like(health('plain'), qr/^ok\|/, 'until it is taken back');
}
foreach my $stray ('EXECUTE ON FUNCTION idem_claim(text, interval, text)', 'SELECT ON idem_stats', 'SELECT ON idem_scopes')
{
    $node->safe_psql('plain', "GRANT $stray TO PUBLIC");
    like(health('plain'), qr/^warning\|.* to PUBLIC/, "health reports $stray for PUBLIC");
    $node->safe_psql('plain', "REVOKE $stray FROM PUBLIC");
}
$node->safe_psql('plain', 'GRANT EXECUTE ON FUNCTION idem_stats_counters() TO ro; GRANT SELECT ON idem_stats, idem_transition_log TO ro');
like(health('plain'), qr/^ok\|/, 'health accepts single functions, views, and the log of transitions');

$node->safe_psql('plain', "GRANT $_ TO app, ops") foreach @strays;
$node->safe_psql('plain', 'GRANT EXECUTE ON FUNCTION idem_key("any") TO app; GRANT USAGE ON TYPE idem_outcome TO app');
$node->safe_psql('plain', qq{SELECT idem_revoke('$_')}) foreach 'app', 'ops', 'ro';
is(differences('plain'), '', 'idem_revoke takes back whatever the role has');
$node->safe_psql('plain', q{SELECT idem_revoke(current_user::regrole)});
is(differences('plain'), '', 'but nothing from the owner');
is( $node->safe_psql('plain', "$privileges SELECT count(*) FROM objects, pg_attribute a WHERE kind = 'r' AND attrelid = name::regclass AND attacl IS NOT NULL"),
    '0', 'columns included');

$node->stop;
done_testing();
