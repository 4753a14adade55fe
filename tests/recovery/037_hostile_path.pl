# Nothing that somebody plants in a schema of the caller's search_path is ever called by idem: no function, operator, type, table or
# view, neither one that hides an object of pg_catalog or of idem, nor one whose argument types match better. That holds for
# every function and every role, for the guards on users' tables, and while the extension is created.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;

use IdemCluster;
use IdemCalls;

my $node = PostgreSQL::Test::Cluster->new('hostile');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nmax_locks_per_transaction = 1000\nlog_statement = none\n");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE model');
install_calls($node, 'model');

# A call's statements, parsed now, so that the path they are executed under is the business of idem alone.
$node->safe_psql('model', <<'SQL');
SET search_path = public, idem;
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT seq, statement, n, n = array_length(statements, 1) AS is_last FROM battery.call, unnest(statements) WITH ORDINALITY AS s (statement, n) LOOP
        EXECUTE format('CREATE FUNCTION battery.call_%s_%s() RETURNS %s VOLATILE BEGIN ATOMIC %s; END', c.seq, c.n, CASE WHEN c.is_last THEN 'text' ELSE 'void' END, c.statement);
    END LOOP;
END $$;
GRANT ALL ON orders, logged, bare, item, loose TO idem_app;
SQL

# battery.plant(schema, hides): copies of what pg_catalog and idem have, with the same argument types (hides), and variants of it
# that match calls better than the originals do. Each says that it was called, and raises an error.
my $plant = <<'SQL';
CREATE SCHEMA IF NOT EXISTS battery;
GRANT USAGE ON SCHEMA battery TO PUBLIC;
CREATE FUNCTION battery.boom(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    RAISE WARNING 'planted % was called', $1;
    RAISE 'planted % was called', $1 USING ERRCODE = 'HX002';
END $$;
CREATE PROCEDURE battery.plant(schema text, hides boolean) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $plant$
DECLARE
    types constant text[] := '{text,varchar,name,"\"char\"",jsonb,int4,int8,bool,timestamptz,interval,bytea,regclass,oid,numeric}';
    body constant text := ' LANGUAGE plpgsql AS $f$BEGIN PERFORM battery.boom(%L); RETURN NULL; END$f$';
    r record;
BEGIN
    IF hides THEN
        FOR r IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, format_type(p.prorettype, NULL) AS result
                 FROM pg_proc p WHERE p.pronamespace IN ('pg_catalog'::regnamespace, coalesce(to_regnamespace('idem')::oid, 0)) AND p.prokind IN ('f', 'a', 'w')
                   AND p.proname !~ '^(pg_stat_get|pg_lsn|binary_upgrade)' LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s', schema, r.proname, r.arguments, r.result) || format(body, r.proname);
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
        FOR r IN SELECT o.oid, o.oprname, o.oprleft::regtype AS lhs, o.oprright::regtype AS rhs, o.oprresult::regtype AS result, o.oprleft <> 0 AS is_binary
                 FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION %I.%I(%s%s) RETURNS %s', schema, 'op_' || r.oid, CASE WHEN r.is_binary THEN r.lhs || ',' ELSE '' END, r.rhs, r.result) || format(body, r.oprname);
                EXECUTE format('CREATE OPERATOR %I.%s (%s RIGHTARG = %s, FUNCTION = %I.%I)', schema, r.oprname, CASE WHEN r.is_binary THEN 'LEFTARG = ' || r.lhs || ',' ELSE '' END, r.rhs, schema, 'op_' || r.oid);
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
        FOR r IN SELECT relname, relnamespace::regnamespace AS n FROM pg_class WHERE relkind IN ('r', 'v', 'S') AND relnamespace IN ('pg_catalog'::regnamespace, coalesce(to_regnamespace('idem')::oid, 0)) LOOP
            BEGIN
                EXECUTE format('CREATE VIEW %I.%I AS SELECT * FROM %s.%I WHERE battery.boom(%L)', schema, r.relname, r.n, r.relname, r.relname);
            EXCEPTION WHEN invalid_table_definition THEN NULL;
            END;
        END LOOP;
        FOR r IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typname !~ '^_' AND typcategory <> 'P' LOOP
            BEGIN
                EXECUTE format('CREATE DOMAIN %I.%I AS pg_catalog.%I CHECK (battery.boom(%L))', schema, r.typname, r.typname, r.typname);
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
        END LOOP;
    END IF;

    FOR r IN SELECT op, lhs, rhs, row_number() OVER () AS n FROM unnest('{=,<>,<,>,<=,>=,||,+,-,*,->,->>,@>,~,~~,&&}'::text[]) op, unnest(types) lhs, unnest(types) rhs LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION %I.%I(pg_catalog.%s, pg_catalog.%s) RETURNS %s', schema, 'better_' || r.n, r.lhs, r.rhs, CASE WHEN r.op ~ '[=<>~&]' AND r.op !~ '^->' THEN 'pg_catalog.bool' ELSE 'pg_catalog.text' END)
                || format(body, r.op || '(' || r.lhs || ',' || r.rhs || ')');
            EXECUTE format('CREATE OPERATOR %I.%s (LEFTARG = pg_catalog.%s, RIGHTARG = pg_catalog.%s, FUNCTION = %I.%I)', schema, r.op, r.lhs, r.rhs, schema, 'better_' || r.n);
        EXCEPTION WHEN duplicate_function OR invalid_function_definition OR duplicate_object THEN NULL;
        END;
    END LOOP;
    FOR r IN SELECT f, x.a FROM unnest('{format,concat,concat_ws,jsonb_build_object,jsonb_build_array,json_build_object,json_build_array,to_jsonb,to_json,quote_ident,quote_literal,quote_nullable,length,octet_length,upper,lower,replace,starts_with,left,right,substr,substring,translate,btrim,position,strpos,encode,decode,convert_to,convert_from,has_function_privilege,has_table_privilege,pg_has_role,array_length,cardinality,array_agg,string_agg,count,max,min,sum,jsonb_agg,jsonb_object_agg,unnest,now,clock_timestamp,greatest,coalesce,current_setting,set_config,to_regclass,to_regrole,pg_get_userbyid,format_type,array_position,array_append,array_to_string,string_to_array,regexp_replace,date_part,age,make_interval}'::text[]) f,
             (SELECT format('pg_catalog.%s', x) AS a FROM unnest(types) x UNION ALL SELECT format('pg_catalog.%s, pg_catalog.%s', x, y) FROM unnest('{text,varchar,name,regclass,int8,jsonb}'::text[]) x, unnest('{text,varchar,name,regclass,int8,jsonb}'::text[]) y) AS x LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS pg_catalog.text', schema, r.f, r.a) || format(body, r.f || '(' || r.a || ')');
        EXCEPTION WHEN duplicate_function THEN NULL;
        END;
    END LOOP;
END $plant$;
SQL
$node->safe_psql('model', $plant);
$node->safe_psql('model', 'CREATE SCHEMA hostile; GRANT USAGE ON SCHEMA hostile TO PUBLIC');
$node->safe_psql('model', "CALL battery.plant('hostile', true)");
$node->safe_psql('postgres', 'CREATE DATABASE unplanted');
my $planted = $node->safe_psql('model', "SELECT count(*) FROM pg_proc WHERE pronamespace = 'hostile'::regnamespace");
cmp_ok($planted, '>', 4000, 'functions are planted');
cmp_ok($node->safe_psql('model', "SELECT count(*) FROM pg_operator WHERE oprnamespace = 'hostile'::regnamespace"), '>', 2000, 'operators are planted');

sub output_of
{
    my ($script, $database) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
    append_to_file($file, $script);
    my ($stdout, $stderr) = ('', '');
    IPC::Run::run([ 'psql', '-X', '-q', '-A', '-t', '-d', $node->connstr($database // 'model'), '-f', $file ], '>', \$stdout, '2>', \$stderr);
    return ($stdout, $stderr);
}

my (undef, $stderr) = output_of("SET search_path = hostile, pg_catalog; SELECT 1 + 1;\nSELECT * FROM pg_class;\nSELECT 'a'::text;\nSELECT length('a');\n");
is(() = $stderr =~ /ERROR:  planted/g, 4, 'a statement that trusts the path calls what is planted');

my @calls = map { [ split /\|/ ] } split /\n/, $node->safe_psql('model', 'SELECT seq, array_length(statements, 1), name FROM battery.call ORDER BY seq');

# What every call answers; the first word of each line names the call.
sub answers
{
    my ($role, $path, $preparation) = @_;
    my $script = "\\set VERBOSITY verbose\n" . ($preparation // '') . "SET ROLE $role;\nSET search_path = $path;\n";
    for my $call (@calls)
    {
        my ($seq, $count) = @$call;
        $script .= "\\echo \@\@ $seq\n\\warn \@\@ $seq\nBEGIN;\n" . join('', map { "SELECT battery.call_${seq}_$_();\n" } 1 .. $count) . "ROLLBACK;\n";
    }
    my ($stdout, $stderr) = output_of($script . "\\warn \@\@ sweep\nCALL idem.idem_sweep();\n");
    my (undef, %errors) = split /^@@ (\w+)\n/m, $stderr;
    my (undef, %answers) = split /^@@ (\w+)\n/m, $stdout;
    my @planted = map { my $s = $_; ($errors{$s} // '') =~ /(planted .* was called)/ ? "call $s: $1" : () } sort keys %errors;
    return (\@planted, { map { my $s = $_; $s => ($answers{$s} // '') . join(' ', ($errors{$s} // '') =~ /ERROR:  (\w{5})/g) } map { $_->[0] } @calls });
}

my $names = { map { $_->[0] => $_->[2] } @calls };

for my $role (qw(postgres idem_operator idem_app))
{
    my (undef, $right) = answers($role, 'public, idem');
    my %paths = (
        'hostile, pg_catalog, public, idem' => '',
        'hostile' => '',
        'public, idem, hostile' => '',
        'hostile, pg_catalog, pg_temp' => '',
        'pg_temp, hostile, pg_catalog, public, idem' => "SET client_min_messages = error; SET ROLE $role; SELECT format('CREATE TEMPORARY VIEW %I AS SELECT * FROM %s.%I WHERE battery.boom(%L)', relname, relnamespace::regnamespace, relname, relname) FROM pg_class WHERE relkind IN ('r', 'v') AND (relnamespace = 'idem'::regnamespace AND has_table_privilege(oid, 'SELECT') OR relname IN ('pg_class', 'pg_proc', 'pg_type', 'pg_namespace', 'pg_extension', 'pg_trigger', 'pg_attribute', 'pg_depend', 'pg_index', 'pg_roles', 'pg_settings', 'orders', 'item')) \\gexec\nSELECT format('CREATE DOMAIN pg_temp.%I AS pg_catalog.%I CHECK (battery.boom(%L))', t, t, t) FROM unnest('{text,jsonb,int8,int4,interval,timestamptz,regclass,name,bytea,oid,bool}'::text[]) t \\gexec\nRESET ROLE; RESET client_min_messages;\n");
    for my $path (sort keys %paths)
    {
        my ($planted, $answers) = answers($role, $path, $paths{$path});
        is_deeply([ map { s/call (\d+)/$names->{$1}/r } @$planted ], [], "$role, search_path = $path: nothing that is planted is called");
        is_deeply([ map { "$names->{$_}: $answers->{$_} instead of $right->{$_}" } grep { $answers->{$_} ne $right->{$_} } sort { $a <=> $b } keys %$right ], [], "$role, search_path = $path: the answers are the same");
    }
}

# --- While the extension is created, in a schema in which others have planted what matches better -----------------------------

for my $schema (qw(public target))
{
    my $database = "created_in_$schema";
    $node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE unplanted");
    $node->safe_psql($database, $plant . "CREATE SCHEMA IF NOT EXISTS $schema; CREATE SCHEMA hostile; CALL battery.plant('hostile', true); CALL battery.plant('$schema', false);");
    my (undef, $stderr) = output_of("SET search_path = hostile, pg_catalog, public; CREATE EXTENSION idem SCHEMA $schema;\n", $database);
    is($stderr, '', "CREATE EXTENSION in the schema \"$schema\" calls nothing that is planted");
    (undef, $stderr) = output_of("SET search_path = hostile, pg_catalog, public;\n"
        . "SELECT $schema.idem_claim('a');\nSELECT $schema.idem_grant('idem_app');\nSELECT $schema.idem_grant('idem_app', true);\nSELECT $schema.idem_revoke('idem_app');\nSELECT * FROM $schema.idem_health();\n"
        . "SELECT $schema.idem_hit('a');\nSELECT $schema.idem_scope_set('s');\nSELECT * FROM $schema.idem_stats;\nSELECT * FROM $schema.idem_dead_letters;\nSELECT * FROM $schema.idem_sweep_progress;\n"
        . "SELECT $schema.idem_publish('t', '{}');\nSELECT * FROM $schema.idem_outbox_take('t');\nSELECT $schema.idem_machine_define('m', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"]}}');\n"
        . "SELECT $schema.idem_token_redeem($schema.idem_token_issue());\nSELECT $schema.idem_lock('l');\nSELECT * FROM $schema.idem_in_flight();\nSELECT $schema.idem_api_key_set('k', '0123456789abcdef');\nSELECT $schema.idem_webhook_source_set('s', 'slack', '0123456789abcdef');\nSELECT $schema.idem_webhook_receive('s', '{}', '');\nSELECT $schema.idem_allow('n', 1, 1);\nCALL $schema.idem_sweep();\nDROP EXTENSION idem;\n", $database);
    is(join("\n", grep { /planted|ERROR/ } split /\n/, $stderr), '', "nor do functions of an extension in the schema \"$schema\"");
}

# An object that already has a name of the extension's is not adopted: its owner could change it afterwards.
$node->safe_psql('postgres', 'CREATE DATABASE taken');
for my $object ('TABLE public.idem_keys (key text)', 'SEQUENCE public.idem_fence_high_water', 'VIEW public.idem_stats AS SELECT 1', q{TYPE public.idem_outcome AS ENUM ('acquired')},
    q{FUNCTION public.idem_fingerprint(request jsonb) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'}, q{FUNCTION public.idem_grant(role regrole, operator boolean DEFAULT false) RETURNS void LANGUAGE sql AS ''},
    q{FUNCTION public.idem_set_privileges() RETURNS void LANGUAGE sql AS ''})
{
    isnt(sqlstate($node, "BEGIN; CREATE $object; CREATE EXTENSION idem SCHEMA public; ROLLBACK", 'taken'), '00000', "CREATE EXTENSION does not adopt a planted $object");
}

done_testing();
