# Every table, sequence, view and type of the extension, altered in every way that PostgreSQL knows. A function answers as if
# nothing had been altered, or raises 55000; a function that does not need the altered object answers. No alteration crashes the
# server, makes a function hang, or raises an internal error.
#
# The objects are those of the catalog, so an object that is added later is altered, too. Each alteration is tried in a
# transaction that is rolled back. Some are also committed, into a copy of the database. What alters the shape of a column is tried
# for each name of a column, other kinds for one column of each table. IDEM_ALTERATIONS=all tries and commits everything, which takes
# long; another value is a pattern that selects alterations by name.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use IdemCluster;
use IdemCalls;

my $selection = $ENV{IDEM_ALTERATIONS} // '';

my $node = PostgreSQL::Test::Cluster->new('altered');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
fsync = off
restart_after_crash = on
allow_in_place_tablespaces = on
autovacuum = off
statement_timeout = 30s
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE model');
install_calls($node, 'model');

is_deeply([ uncalled_functions($node, 'model') ], [], 'every function of the extension is called');

# What the alterations use. A trap is harmless until it is armed.
$node->safe_psql('model', <<'SQL');
CREATE TABLESPACE other LOCATION '';
CREATE SCHEMA hostile;
GRANT USAGE ON SCHEMA hostile TO PUBLIC;
CREATE ACCESS METHOD hostile_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE FUNCTION hostile.spring() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    IF pg_catalog.current_setting('hostile.armed', true) = 'on' THEN
        RAISE 'sprung' USING ERRCODE = 'HX001';
    END IF;
    RETURN 0;
END $$;
CREATE FUNCTION hostile.trap(anyelement) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT hostile.spring()';
CREATE FUNCTION hostile.trap_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM hostile.spring(); RETURN NULL; END $$;
CREATE FUNCTION hostile.compare(text, text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    PERFORM hostile.spring();
    RETURN pg_catalog.bttextcmp($1, $2);
END $$;
CREATE OPERATOR CLASS hostile.trapped_ops FOR TYPE text USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 hostile.compare(text, text);
CREATE FUNCTION hostile.difference(text, text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE OPERATOR CLASS hostile.lying_ops FOR TYPE text USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 hostile.difference(text, text);
CREATE DOMAIN hostile.text AS text CHECK (hostile.trap(VALUE) = 0);
CREATE COLLATION hostile.blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
SQL

$node->safe_psql('postgres', 'CREATE DATABASE altered TEMPLATE model; ALTER DATABASE altered SET search_path = public, idem');

# --- The alterations: a name, and statements in which {…} stand for the object's parts ------------------------------------

my @of_any_relation = (
    'owner' => 'ALTER TABLE {r} OWNER TO idem_stranger',
    'rename' => 'ALTER TABLE {r} RENAME TO renamed',
    'schema' => 'ALTER TABLE {r} SET SCHEMA hostile',
    'leave the extension' => 'ALTER EXTENSION idem DROP TABLE {r}',
    'leave the extension and drop' => 'ALTER EXTENSION idem DROP TABLE {r}; DROP TABLE {r}',
    'replace by a view' => 'ALTER TABLE {r} RENAME TO renamed; CREATE VIEW {r} AS SELECT * FROM idem.renamed',
    'replace by a table' => 'ALTER TABLE {r} RENAME TO renamed; CREATE TABLE {r} (LIKE idem.renamed INCLUDING ALL)',
    'replace by a temporary table' => 'CREATE TEMPORARY TABLE {n} (LIKE {r} INCLUDING ALL)',
    'revoke' => 'REVOKE ALL ON {r} FROM PUBLIC, CURRENT_USER',
    'grant' => 'GRANT ALL ON {r} TO PUBLIC',
    'comment' => q{COMMENT ON TABLE {r} IS 'altered'});

my @of_table = (
    @of_any_relation,
    'add a column' => 'ALTER TABLE {r} ADD COLUMN extra text',
    'add a column with a default' => 'ALTER TABLE {r} ADD COLUMN extra int NOT NULL DEFAULT 7',
    'add a column with a volatile default' => 'ALTER TABLE {r} ADD COLUMN extra float8 NOT NULL DEFAULT random()',
    'add a trapped default' => 'ALTER TABLE {r} ADD COLUMN extra int DEFAULT hostile.spring()',
    'add a generated column' => 'ALTER TABLE {r} ADD COLUMN extra int GENERATED ALWAYS AS (hostile.spring()) STORED',
    'add an identity column' => 'ALTER TABLE {r} ADD COLUMN extra int GENERATED ALWAYS AS IDENTITY',
    'add and drop a column' => 'ALTER TABLE {r} ADD COLUMN extra int; ALTER TABLE {r} DROP COLUMN extra',
    'check' => 'ALTER TABLE {r} ADD CHECK (hostile.spring() = 0)',
    'check that is not valid' => 'ALTER TABLE {r} ADD CHECK (false) NOT VALID',
    'check that is not inherited' => 'ALTER TABLE {r} ADD CHECK (hostile.spring() = 0) NO INHERIT',
    'cluster' => 'CREATE INDEX extra ON {r} ({c1}); CLUSTER {r} USING extra',
    'cluster on' => 'CREATE INDEX extra ON {r} ({c1}); ALTER TABLE {r} CLUSTER ON extra',
    'without cluster' => 'ALTER TABLE {r} SET WITHOUT CLUSTER',
    'unlogged' => 'ALTER TABLE {r} SET UNLOGGED',
    'logged' => 'ALTER TABLE {r} SET LOGGED',
    'tablespace' => 'ALTER TABLE {r} SET TABLESPACE other',
    'access method' => 'ALTER TABLE {r} SET ACCESS METHOD hostile_heap',
    'replica identity full' => 'ALTER TABLE {r} REPLICA IDENTITY FULL',
    'replica identity nothing' => 'ALTER TABLE {r} REPLICA IDENTITY NOTHING',
    'row security' => 'ALTER TABLE {r} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {r} USING (hostile.spring() = 1)',
    'forced row security' => 'ALTER TABLE {r} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
    'forced row security of a stranger' => 'ALTER TABLE {r} OWNER TO idem_stranger; ALTER TABLE {r} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
    (map { my ($when, $each) = @$_; ("trigger $when $each" => "CREATE TRIGGER extra $when INSERT OR UPDATE OR DELETE ON {r} FOR EACH $each EXECUTE FUNCTION hostile.trap_row(); ALTER TABLE {r} ENABLE ALWAYS TRIGGER extra") }
        [ 'BEFORE', 'ROW' ], [ 'AFTER', 'ROW' ], [ 'BEFORE', 'STATEMENT' ], [ 'AFTER', 'STATEMENT' ]),
    'constraint trigger' => 'CREATE CONSTRAINT TRIGGER extra AFTER INSERT OR UPDATE OR DELETE ON {r} DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW EXECUTE FUNCTION hostile.trap_row()',
    'disabled triggers' => 'ALTER TABLE {r} DISABLE TRIGGER ALL',
    (map { ("rule on $_" => "CREATE RULE extra AS ON $_ TO {r} DO INSTEAD NOTHING") } qw(INSERT UPDATE DELETE)),
    'rule also' => 'CREATE RULE extra AS ON INSERT TO {r} DO ALSO SELECT hostile.spring()',
    'child' => 'CREATE TABLE hostile.child () INHERITS ({r}); INSERT INTO hostile.child SELECT * FROM {r}',
    'former child' => 'CREATE TABLE hostile.child () INHERITS ({r}); DROP TABLE hostile.child',
    'parent' => 'CREATE TABLE hostile.parent ({c1} {t1}); ALTER TABLE {r} INHERIT hostile.parent',
    'partition' => 'CREATE TABLE hostile.parent (LIKE {r}) PARTITION BY LIST ({c1}); ALTER TABLE hostile.parent ATTACH PARTITION {r} DEFAULT',
    'of a type' => 'CREATE TYPE hostile.row AS ({definitions}); ALTER TABLE {r} OF hostile.row',
    'fillfactor' => 'ALTER TABLE {r} SET (fillfactor = 10)',
    'autovacuum' => 'ALTER TABLE {r} SET (autovacuum_enabled = off, autovacuum_vacuum_threshold = 500000)',
    'no options' => 'ALTER TABLE {r} RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor)',
    'user catalog table' => 'ALTER TABLE {r} SET (user_catalog_table = true)',
    'statistics' => 'CREATE STATISTICS hostile.s ON {c1}, {c2} FROM {r}',
    'foreign key' => 'CREATE TABLE hostile.parent ({c1} {t1} PRIMARY KEY); ALTER TABLE {r} ADD FOREIGN KEY ({c1}) REFERENCES hostile.parent NOT VALID',
    'exclusion' => 'ALTER TABLE {r} ADD EXCLUDE USING btree ({c1} WITH =)',
    'exclusion of what is there' => 'ALTER TABLE {r} ADD EXCLUDE USING btree (({c1}::text) WITH =) WHERE (hostile.spring() = 1)',
    'publication' => 'CREATE PUBLICATION p FOR TABLE {r}');

my @of_column = (
    'drop' => 'ALTER TABLE {r} DROP COLUMN {c}',
    'drop with what depends on it' => 'ALTER TABLE {r} DROP COLUMN {c} CASCADE',
    'drop and add' => 'ALTER TABLE {r} DROP COLUMN {c} CASCADE; ALTER TABLE {r} ADD COLUMN {c} {t}',
    'rename' => 'ALTER TABLE {r} RENAME COLUMN {c} TO renamed',
    'rename and add' => 'ALTER TABLE {r} RENAME COLUMN {c} TO renamed; ALTER TABLE {r} ALTER COLUMN renamed DROP NOT NULL; ALTER TABLE {r} ADD COLUMN {c} {t}',
    'not null' => 'ALTER TABLE {r} ALTER COLUMN {c} SET NOT NULL',
    'not null after deletion' => 'DELETE FROM {r} WHERE {c} IS NULL; ALTER TABLE {r} ALTER COLUMN {c} SET NOT NULL',
    'null' => 'ALTER TABLE {r} ALTER COLUMN {c} DROP NOT NULL',
    'null values' => 'ALTER TABLE {r} ALTER COLUMN {c} DROP NOT NULL; UPDATE {r} SET {c} = NULL',
    'default' => 'ALTER TABLE {r} ALTER COLUMN {c} SET DEFAULT NULL',
    'trapped default' => 'ALTER TABLE {r} ALTER COLUMN {c} SET DEFAULT hostile.spring()::text::{t}',
    'no default' => 'ALTER TABLE {r} ALTER COLUMN {c} DROP DEFAULT',
    'identity' => 'ALTER TABLE {r} ALTER COLUMN {c} DROP DEFAULT, ALTER COLUMN {c} ADD GENERATED ALWAYS AS IDENTITY',
    (map { ("storage $_" => "ALTER TABLE {r} ALTER COLUMN {c} SET STORAGE $_") } qw(PLAIN EXTERNAL MAIN)),
    'compression' => 'ALTER TABLE {r} ALTER COLUMN {c} SET COMPRESSION pglz',
    'statistics' => 'ALTER TABLE {r} ALTER COLUMN {c} SET STATISTICS 1000',
    'option' => 'ALTER TABLE {r} ALTER COLUMN {c} SET (n_distinct = 1)',
    'type' => 'ALTER TABLE {r} ALTER COLUMN {c} TYPE {wider} USING {c}::text::{wider}',
    'short type' => 'ALTER TABLE {r} ALTER COLUMN {c} TYPE varchar(40) USING {c}::text',
    'array' => 'ALTER TABLE {r} ALTER COLUMN {c} TYPE {t}[] USING ARRAY[{c}]',
    'domain' => 'ALTER TABLE {r} ALTER COLUMN {c} TYPE hostile.text',
    (map { ("collation $_" => "ALTER TABLE {r} ALTER COLUMN {c} TYPE {t} COLLATE $_") } '"default"', '"POSIX"', 'hostile.blind'),
    'index' => 'CREATE INDEX extra ON {r} ({c})',
    'hash index' => 'CREATE INDEX extra ON {r} USING hash ({c})',
    'brin index' => 'CREATE INDEX extra ON {r} USING brin ({c})',
    'unique index' => 'CREATE UNIQUE INDEX extra ON {r} ({c})',
    'unique index, no nulls twice' => 'CREATE UNIQUE INDEX extra ON {r} ({c}) NULLS NOT DISTINCT',
    'unique constraint' => 'ALTER TABLE {r} ADD UNIQUE ({c})',
    'deferrable unique constraint' => 'ALTER TABLE {r} ADD UNIQUE ({c}) DEFERRABLE INITIALLY DEFERRED',
    'trapped index' => 'CREATE INDEX extra ON {r} (hostile.trap({c}))',
    'trapped partial index' => 'CREATE INDEX extra ON {r} ({c1}) WHERE hostile.trap({c}) = 0',
    'index by a trapped operator class' => 'CREATE INDEX extra ON {r} ({c} hostile.trapped_ops)',
    'index by a lying operator class' => 'CREATE UNIQUE INDEX extra ON {r} ({c} hostile.lying_ops)',
    'index that is not valid' => q{CREATE UNIQUE INDEX extra ON {r} ((hostile.trap({c}))) WHERE false; UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = 'extra')},
    'index that is not ready' => q{CREATE INDEX extra ON {r} ({c}); UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = 'extra')},
    'replica identity' => 'ALTER TABLE {r} ALTER COLUMN {c} SET NOT NULL; CREATE UNIQUE INDEX extra ON {r} ({c}); ALTER TABLE {r} REPLICA IDENTITY USING INDEX extra',
    'check' => 'ALTER TABLE {r} ADD CHECK (hostile.trap({c}) = 0)',
    'grant' => 'REVOKE SELECT ({c}) ON {r} FROM PUBLIC');

my @of_constraint = (
    'drop' => 'ALTER TABLE {r} DROP CONSTRAINT {k}',
    'rename' => 'ALTER TABLE {r} RENAME CONSTRAINT {k} TO renamed');

# {ic}: the columns of the index.
my @of_index = (
    'rename' => 'ALTER INDEX {i} RENAME TO renamed',
    'fillfactor' => 'ALTER INDEX {i} SET (fillfactor = 20)',
    'no deduplication' => 'ALTER INDEX {i} SET (deduplicate_items = off)',
    'tablespace' => 'ALTER INDEX {i} SET TABLESPACE other',
    'rebuild' => 'REINDEX INDEX {i}',
    'not valid' => q{UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{i}'::regclass},
    'drop' => 'DROP INDEX {i}');

my @of_key = (
    'the same' => 'PRIMARY KEY ({ic})',
    'include' => 'PRIMARY KEY ({ic}) INCLUDE ({other})',
    'more columns' => 'PRIMARY KEY ({ic}, {c1})',
    'deferrable' => 'PRIMARY KEY ({ic}) DEFERRABLE',
    'deferred' => 'PRIMARY KEY ({ic}) DEFERRABLE INITIALLY DEFERRED',
    'unique' => 'UNIQUE ({ic})',
    'unique, no nulls twice' => 'UNIQUE NULLS NOT DISTINCT ({ic})',
    'unique, deferrable' => 'UNIQUE ({ic}) DEFERRABLE');

my @of_key_index = (
    'unique index' => '({ic})',
    'partial' => '({ic}) WHERE hostile.spring() = 0',
    'backwards' => '({backwards})',
    'descending' => '({descending})',
    'include' => '({ic}) INCLUDE ({other})',
    'expression' => '({expressions})',
    'collation' => '({collated})',
    'blind' => '({blind})',
    'pattern' => '({pattern})',
    'trapped' => '({trapped})',
    'lying' => '({lying})');

my @of_sequence = (
    'owner' => 'ALTER SEQUENCE {r} OWNER TO idem_stranger',
    'rename' => 'ALTER SEQUENCE {r} RENAME TO renamed',
    'schema' => 'ALTER SEQUENCE {r} SET SCHEMA hostile',
    'leave the extension and drop' => 'ALTER EXTENSION idem DROP SEQUENCE {r}; DROP SEQUENCE {r}',
    'replace' => 'ALTER SEQUENCE {r} RENAME TO renamed; CREATE SEQUENCE {r}',
    'replace by a table' => 'ALTER SEQUENCE {r} RENAME TO renamed; CREATE TABLE {r} AS SELECT * FROM idem.renamed',
    'replace by a view' => 'ALTER SEQUENCE {r} RENAME TO renamed; CREATE VIEW {r} AS SELECT * FROM idem.renamed',
    (map { (lc $_ => "ALTER SEQUENCE {r} $_") } 'CYCLE', 'INCREMENT 2', 'INCREMENT 1000000000', 'INCREMENT -1 MINVALUE -9223372036854775808', 'RESTART', 'RESTART WITH 5', 'CACHE 100',
        'MAXVALUE 2147483647 RESTART', 'MAXVALUE 5 RESTART CYCLE', 'MINVALUE -5', 'AS int MAXVALUE 2147483647 RESTART', 'AS smallint MAXVALUE 32767 RESTART', 'SET UNLOGGED', 'SET LOGGED', 'OWNED BY NONE'),
    'setval 1' => q{SELECT setval('{r}', 1)},
    'setval at the end' => q{SELECT setval('{r}', 9223372036854775807)},
    'setval near the end' => q{SELECT setval('{r}', 9223372036854775806)},
    'owned by a column' => 'CREATE TABLE idem.of (i bigint); ALTER SEQUENCE {r} OWNED BY idem.of.i');

my @of_view = (
    @of_any_relation,
    'drop the view' => 'ALTER EXTENSION idem DROP VIEW {r}; DROP VIEW {r}',
    'barrier' => 'ALTER VIEW {r} SET (security_barrier = true)',
    'invoker' => 'ALTER VIEW {r} SET (security_invoker = true)',
    'instead' => 'CREATE TRIGGER extra INSTEAD OF INSERT ON {r} FOR EACH ROW EXECUTE FUNCTION hostile.trap_row()',
    'rule' => 'CREATE RULE extra AS ON INSERT TO {r} DO INSTEAD NOTHING');
my @of_view_column = (
    'rename' => 'ALTER VIEW {r} RENAME COLUMN {c} TO renamed',
    'default' => 'ALTER VIEW {r} ALTER COLUMN {c} SET DEFAULT NULL');

my @of_type = (
    'owner' => 'ALTER TYPE {r} OWNER TO idem_stranger',
    'rename' => 'ALTER TYPE {r} RENAME TO renamed',
    'schema' => 'ALTER TYPE {r} SET SCHEMA hostile',
    'revoke' => 'REVOKE ALL ON TYPE {r} FROM PUBLIC');
my @of_composite = (
    'add' => 'ALTER TYPE {r} ADD ATTRIBUTE extra text',
    'add two' => 'ALTER TYPE {r} ADD ATTRIBUTE extra int, ADD ATTRIBUTE further text',
    'add and drop' => 'ALTER TYPE {r} ADD ATTRIBUTE extra text; ALTER TYPE {r} DROP ATTRIBUTE extra');
my @of_attribute = (
    'drop' => 'ALTER TYPE {r} DROP ATTRIBUTE {c}',
    'drop and add' => 'ALTER TYPE {r} DROP ATTRIBUTE {c}; ALTER TYPE {r} ADD ATTRIBUTE {c} {t}',
    'rename' => 'ALTER TYPE {r} RENAME ATTRIBUTE {c} TO renamed',
    'type' => 'ALTER TYPE {r} ALTER ATTRIBUTE {c} TYPE {wider}',
    'by reference' => 'ALTER TYPE {r} ALTER ATTRIBUTE {c} TYPE text',
    'by value' => 'ALTER TYPE {r} ALTER ATTRIBUTE {c} TYPE smallint',
    'collation' => 'ALTER TYPE {r} ALTER ATTRIBUTE {c} TYPE {t} COLLATE "POSIX"');
my @of_enum = ('add' => q{ALTER TYPE {r} ADD VALUE 'extra'});
my @of_label = (
    'rename' => q{ALTER TYPE {r} RENAME VALUE '{l}' TO 'renamed'},
    'add before' => q{ALTER TYPE {r} ADD VALUE 'extra' BEFORE '{l}'});

my %wider = (
    'text' => 'varchar', 'bigint' => 'numeric', 'integer' => 'bigint', 'timestamp with time zone' => 'timestamp', 'jsonb' => 'json', 'bytea' => 'text',
    'boolean' => 'text', '"char"' => 'text', 'interval' => 'text', 'regclass' => 'text', 'oid' => 'bigint', 'name' => 'text');

# --- From the catalog to scenarios ------------------------------------------------------------------------------------------

sub rows { return map { decode_json($_) } split /\n/, $node->safe_psql('model', "SELECT json_build_array(a, b, c, d) FROM ($_[0]) AS t (a, b, c, d)") }

my $member = "JOIN pg_depend x ON x.objid = o.oid AND x.deptype = 'e' AND x.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idem')";
my @relations = rows("SELECT o.relname, o.relkind, o.oid, 0 FROM pg_class o $member AND x.classid = 'pg_class'::regclass ORDER BY 1");
my @types = rows("SELECT o.typname, o.typtype, o.typrelid, o.oid FROM pg_type o $member AND x.classid = 'pg_type'::regclass WHERE o.typtype IN ('c', 'e') ORDER BY 1");

my @scenarios;

# Alterations that a part of the object does not have (a second column, say) fall away.
sub alter
{
    my ($sort, $object, $part, $parts, @alterations) = @_;
    while (my ($kind, $sql) = splice(@alterations, 0, 2))
    {
        my %parts = (n => $object, r => "idem.$object", %$parts);
        $sql =~ s/\{(\w+)\}/$parts{$1} \/\/ '{?}'/ge;
        next if $sql =~ /\{\?\}/;
        push @scenarios, { sort => $sort, kind => $kind, object => $object, part => $part, name => join(' ', $sort, $object, $part || (), $kind), sql => $sql };
    }
}

sub columns_of { return rows("SELECT quote_ident(attname), format_type(atttypid, NULL), attnum, attnotnull FROM pg_attribute WHERE attrelid = $_[0] AND attnum > 0 AND NOT attisdropped ORDER BY attnum") }

for my $relation (@relations)
{
    my ($name, $relkind, $oid) = @$relation;
    my @columns = columns_of($oid);
    my %first = (c1 => $columns[0][0], t1 => $columns[0][1], c2 => $columns[1] && $columns[1][0],
        columns => join(', ', map { $_->[0] } @columns), definitions => join(', ', map { "$_->[0] $_->[1]" } @columns));
    if ($relkind eq 'S') { alter('sequence', $name, '', {}, @of_sequence); next }
    if ($relkind eq 'v')
    {
        alter('view', $name, '', \%first, @of_view);
        alter('view column', $name, $_->[0], { c => $_->[0] }, @of_view_column) for @columns;
        next;
    }
    alter('table', $name, '', \%first, @of_table);
    alter('column', $name, $_->[0], { %first, c => $_->[0], t => $_->[1], wider => $wider{ $_->[1] } // 'text' }, @of_column) for @columns;
    alter('constraint', $name, $_->[0], { k => $_->[0] }, @of_constraint)
        for rows("SELECT quote_ident(conname), 0, 0, 0 FROM pg_constraint WHERE conrelid = $oid ORDER BY 1");
    for my $index (rows("SELECT indexrelid::regclass, indisprimary, conname, (SELECT json_agg(json_build_array(quote_ident(attname), format_type(atttypid, NULL)) ORDER BY n) FROM unnest(indkey) WITH ORDINALITY AS k (k, n) JOIN pg_attribute ON attrelid = indrelid AND attnum = k) FROM pg_index LEFT JOIN pg_constraint ON conindid = indexrelid AND contype = 'p' WHERE indrelid = $oid ORDER BY indexrelid"))
    {
        my ($i, $is_primary, $constraint, $members) = @$index;
        my @ic = map { $_->[0] } @$members;
        my %in = map { $_ => 1 } @ic;
        my ($other) = grep { !$in{$_} } map { $_->[0] } @columns;
        my %parts = (%first, i => "idem." . ($i =~ s/.*\.//r), ic => join(', ', @ic), other => $other, backwards => join(', ', reverse @ic), descending => join(', ', map { "$_ DESC" } @ic),
            expressions => join(', ', map { "(hostile.trap($_))" } @ic), collated => join(', ', map { $_->[1] eq 'text' ? "$_->[0] COLLATE \"POSIX\"" : $_->[0] } @$members),
            blind => join(', ', map { $_->[1] eq 'text' ? "$_->[0] COLLATE hostile.blind" : $_->[0] } @$members),
            map { my $ops = $_; $ops => join(', ', map { $_->[1] eq 'text' ? "$_->[0] " . ($ops eq 'pattern' ? 'text_pattern_ops' : "hostile.${ops}_ops") : $_->[0] } @$members) } qw(pattern trapped lying));
        alter('index', $name, $i, \%parts, @of_index);
        next unless $is_primary;
        my @keys = @of_key;
        alter('key', $name, '', \%parts, map { ($_ % 2 ? "ALTER TABLE {r} DROP CONSTRAINT $constraint CASCADE; ALTER TABLE {r} ADD CONSTRAINT $constraint $keys[$_]" : $keys[$_]) } 0 .. $#keys);
        alter('key', $name, '', { %parts, ic => $_ }, 'one column' => "ALTER TABLE {r} DROP CONSTRAINT $constraint CASCADE; ALTER TABLE {r} ADD CONSTRAINT $constraint UNIQUE ({ic})") for @ic;
        my @indexes = @of_key_index;
        alter('key index', $name, '', \%parts, map { ($_ % 2 ? "ALTER TABLE {r} DROP CONSTRAINT $constraint CASCADE; CREATE UNIQUE INDEX $constraint ON {r} $indexes[$_]" : $indexes[$_]) } 0 .. $#indexes);
        alter('key', $name, '', \%parts, 'not unique' => "ALTER TABLE {r} DROP CONSTRAINT $constraint CASCADE; CREATE INDEX $constraint ON {r} ({ic})");
        alter('key', $name, '', { %parts, key => join(', ', map { "$_->[0] $_->[1]" } @$members) }, 'referenced' => 'CREATE TABLE hostile.child ({key}, FOREIGN KEY ({ic}) REFERENCES {r}); INSERT INTO hostile.child SELECT {ic} FROM {r}',
            'referenced, cascading' => 'CREATE TABLE hostile.child ({key}, FOREIGN KEY ({ic}) REFERENCES {r} ON DELETE CASCADE ON UPDATE CASCADE); INSERT INTO hostile.child SELECT {ic} FROM {r}');
    }
}
for my $type (@types)
{
    my ($name, $typtype, $relation, $oid) = @$type;
    alter('type', $name, '', {}, @of_type);
    if ($typtype eq 'e')
    {
        alter('type', $name, '', {}, @of_enum);
        alter('label', $name, $_->[0], { l => $_->[0] }, @of_label) for rows("SELECT enumlabel, 0, 0, 0 FROM pg_enum WHERE enumtypid = $oid ORDER BY enumsortorder");
        next;
    }
    alter('composite type', $name, '', {}, @of_composite);
    alter('attribute', $name, $_->[0], { c => $_->[0], t => $_->[1], wider => $wider{ $_->[1] } // 'text' }, @of_attribute) for columns_of($relation);
}

# What sequences and tablespaces do is not undone by a rollback. (After SET TABLESPACE, an insertion and a rollback,
# PostgreSQL's own indexes have entries for rows that never were: the table is copied, its indexes are not.)
sub can_roll_back { return $_[0]{sql} !~ /setval|TABLE \S+ SET TABLESPACE/ }

# Alterations that destroy or hide rows, or leave an index that orders them wrongly: no answer is the right one then, but there must be one.
sub has_right_answers { return $_[0]{kind} !~ /null values|deletion|lying|drop and add|setval/ }

# The caller's own SQL names a view, its columns, a type's attributes and an enum's labels, and the user's own constraint may be violated.
# What the documents allow must stop nothing; the tables of secrets take no index.
sub errors_of
{
    my ($sort) = $_[0]{sort};
    return '55000' if $_[0]{kind} =~ /index/ && $_[0]{object} =~ /^idem_(token_secrets|api_keys|webhook_sources)$/;
    return 'none' if $sort =~ /^(table|column)$/ && $_[0]{kind} =~ /^(autovacuum|comment|grant|statistics|option|index|hash index|brin index)$/;
    return $sort =~ /^view/ ? '55000|42P01|42703|42501' : $sort eq 'attribute' ? '55000|42703|42883|42804|22P02' : '55000|HX001|23...';
}

if ($selection eq 'all') { }
elsif ($selection) { @scenarios = grep { $_->{name} =~ /$selection/ } @scenarios }
else
{
    my %tried;
    @scenarios = grep { my $s = $_; !$s->{part} || $s->{sort} =~ /attribute|label/ || grep { !$tried{$_}++ } "$s->{kind} $s->{object}", ("$s->{kind} $s->{part}") x ($s->{kind} =~ /^(drop|drop and add|rename|rename and add|type|not null|null|null values)$/) } @scenarios;
}

# --- Running them ---------------------------------------------------------------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir();
my (@findings, %accepted);

sub is_up { return $node->poll_query_until('postgres', 'SELECT true') }

# Each scenario is a piece of a script for psql. A script that ends early has crashed the server; the rest goes on without
# the piece that did it. What psql writes to stderr begins with the scenario's number, what it writes to stdout names it.
sub run_scenarios
{
    my ($way, $database, $piece, @todo) = @_;
    my $next = 0;
    while ($next < @todo)
    {
        my $script = "\\set VERBOSITY verbose\n\\pset tuples_only on\n\\pset format unaligned\n";
        $script .= "\\warn \@\@ $_\n" . $piece->($todo[$_], $_) for $next .. $#todo;
        my $file = "$dir/script.sql";
        unlink $file;
        append_to_file($file, $script);
        my ($stdout, $stderr) = ('', '');
        my $status = IPC::Run::run([ 'psql', '-X', '-q', '-d', $node->connstr($database), '-f', $file ], '>', \$stdout, '2>', \$stderr);

        my %deviations;
        for my $line (grep { /^## / } split /\n/, $stdout)
        {
            my ($number, @deviation) = @{ decode_json(substr($line, 3)) };
            push @{ $deviations{$number} }, \@deviation;
        }
        my @parts = split /^@@ (\d+)\n/m, $stderr;
        shift @parts;
        my $last = $next;
        while (my ($number, $messages) = splice(@parts, 0, 2))
        {
            my $scenario = $todo[$number];
            $last = $number;
            if ($messages =~ /server closed the connection|connection to server was lost|terminating connection because of crash/)
            {
                push @findings, [ $way, $scenario, [ 'the server', 'it goes on', 'it crashed' ] ];
                next;
            }
            my @errors = $messages =~ /ERROR:  (\w{5}: [^\n]*)/g;
            next if grep { /^25P02/ } @errors or $messages =~ /^refused/m;
            $accepted{ "$scenario->{sort}: $scenario->{kind}" }++;
            push @findings, [ $way, $scenario, $_ ] for grep { is_finding($scenario, $_->[2]) } @{ $deviations{$number} // [] };
            push @findings, [ $way, $scenario, [ 'the script', 'no error', $_ ] ] for grep { !/^55000/ } @errors;
        }
        last if $status;
        BAIL_OUT("psql: $stderr") if $last == $next && $stderr !~ /@@ $last/;
        is_up();
        $next = $last + 1;
    }
}

sub is_finding
{
    my ($scenario, $answer) = @_;
    return 1 if $answer =~ /^error (XX|55000)/;
    return 0 if !has_right_answers($scenario);
    return 0 if $scenario->{sort} eq 'view' && $scenario->{kind} =~ /replace/;
    return !($scenario->{sort} eq 'label' && $answer =~ /renamed/);
}

sub deviations
{
    my ($scenario, $number, $role) = @_;
    return "SELECT '## ' || json_build_array($number, name, expected, answer)::text FROM battery.deviations('$scenario->{object}', '$role', '" . errors_of($scenario) . "');\n";
}

sub rolled_back
{
    my ($scenario, $number) = @_;
    return "BEGIN;\n$scenario->{sql};\nSET LOCAL hostile.armed = on;\n" . deviations($scenario, $number, 'postgres') . "ROLLBACK;\n";
}

sub committed
{
    my ($scenario, $number) = @_;
    my $alteration = "$dir/alteration-$number.sql";
    append_to_file($alteration, "\\set ON_ERROR_STOP on\n$scenario->{sql};\n");
    my $connect = "\\connect copy\n";
    my $observe = "BEGIN;\nSET LOCAL hostile.armed = on;\n" . deviations($scenario, $number, 'postgres') . "ROLLBACK;\n";
    my $as_operator = "BEGIN;\nSET LOCAL ROLE idem_operator;\nSET LOCAL hostile.armed = on;\n" . deviations($scenario, $number, 'idem_operator') . "ROLLBACK;\n";
    return "\\connect postgres\nDROP DATABASE IF EXISTS copy WITH (FORCE);\nCREATE DATABASE copy TEMPLATE model;\nALTER DATABASE copy SET search_path = public, idem, hostile;\n"
        . "${connect}BEGIN;\nSELECT count(*) > 0 FROM battery.observe();\nROLLBACK;\n"
        . "\\! psql -X -q -d '" . $node->connstr('copy') . "' -1 -f $alteration >/dev/null 2>&1 || echo refused >&2\n"
        . "$observe$connect$as_operator" . "CALL idem_sweep();\n";
}

# Alterations leave their dead rows in the catalogs, so that copies of a database would become large.
run_scenarios('rolled back', 'altered', \&rolled_back, grep { can_roll_back($_) } @scenarios);

my %chosen;
my @to_commit = grep { $selection || $_->{sort} !~ /^(column|view column|index|constraint)$/ && !$chosen{"$_->{sort}: $_->{kind}"}++ } @scenarios;
run_scenarios('committed', 'postgres', \&committed, @to_commit);

# A table that somebody alters is locked until he commits. The functions that do not need it go on.
my $holder = $node->background_psql('model');
for my $relation (grep { $_->[1] eq 'r' } @relations)
{
    my ($name) = @$relation;
    $holder->query_safe("BEGIN; LOCK TABLE idem.$name IN ACCESS EXCLUSIVE MODE");
    my $answer = $node->safe_psql('model', "SET battery.wait_limit = 30; SELECT json_build_array(name, expected, answer) FROM battery.deviations('$name', 'postgres', '55P03')");
    push @findings, [ 'locked', { name => "table $name", sql => "LOCK TABLE idem.$name" }, decode_json($_) ] for split /\n/, $answer;
    $holder->query_safe('ROLLBACK');
}
$holder->quit;

# A foreign key that references a table of idem's holds, or is refused.
for my $forget (q{SELECT idem_forget('done')}, q{SELECT idem_claim('expired')})
{
    my $answer = '';
    $node->psql('model', <<"SQL", stdout => \$answer);
BEGIN;
CREATE TABLE hostile.child (scope text COLLATE "C", key text COLLATE "C", FOREIGN KEY (scope, key) REFERENCES idem.idem_keys);
INSERT INTO hostile.child SELECT scope, key FROM idem.idem_keys;
$forget;
SELECT 'orphans: ' || count(*) FROM hostile.child c WHERE NOT EXISTS (SELECT FROM idem.idem_keys k WHERE k.scope = c.scope AND k.key = c.key);
ROLLBACK;
SQL
    unlike($answer, qr/orphans: [1-9]/, "a foreign key holds after $forget");
}

# --- What came of it --------------------------------------------------------------------------------------------------------

# One line for each kind of answer to the alterations of one object.
my %reported;
for my $finding (@findings)
{
    my ($way, $scenario, $deviation) = @$finding;
    my $answer = $deviation->[2] =~ s/\d+/0/gr;
    $answer = "error $1" if $deviation->[2] =~ /^error (\w{5})/;
    push @{ $reported{ join(', ', $way, $scenario->{object} // (), $answer =~ /^error|crash/ ? substr($answer, 0, 60) : 'wrong answer') } }, "after \"$scenario->{sql}\", \"$deviation->[0]\" answers \"$deviation->[2]\", not \"$deviation->[1]\"";
}
is(scalar(keys %reported), 0, 'after every alteration, functions answer rightly or raise 55000');
diag(scalar(@{ $reported{$_} }) . " times ($_): $reported{$_}[0]") for sort keys %reported;
if ($ENV{IDEM_REPORT})
{
    unlink $ENV{IDEM_REPORT};
    append_to_file($ENV{IDEM_REPORT}, join("\n", (map { join("\t", $_->[0], $_->[1]{name}, $_->[1]{sql}, map { s/\n/ /gr } @{ $_->[2] }) } @findings), '',
        (map { "accepted\t$_" } sort keys %accepted), (map { "never accepted\t$_" } grep { !$accepted{$_} } do { my %seen; grep { !$seen{$_}++ } map { "$_->{sort}: $_->{kind}" } @scenarios })) . "\n");
}

my @crashes = slurp_file($node->logfile) =~ /(?:terminated by signal|TRAP:|PANIC:).*/g;
is(scalar(@crashes), 0, 'the server has not crashed');
note(scalar(@scenarios) . " alterations, " . scalar(@to_commit) . " of them committed as well");

done_testing();
