# The functions that run with the rights of idem's owner: what of a caller's reaches them, and that no code of the caller's runs in them.

load common

setup_file() {
    build_portable
    psql -Xqc 'CREATE ROLE shop LOGIN' -c 'CREATE ROLE mallory LOGIN' -c 'CREATE DATABASE rights OWNER shop TEMPLATE template0' -c 'GRANT CREATE ON DATABASE rights TO mallory'
    export PGDATABASE=rights
    psql -Xq -U shop --file="$root/build/idem--portable.sql"
    # What the calls of the drivers need.
    psql -Xqc 'GRANT CREATE ON SCHEMA public TO mallory' -c 'SET ROLE shop' -c "SELECT idem.idem_grant('mallory', operator => true)" \
        -f <(sed -n '/^SELECT idem.idem_\(machine\|api\|webhook\)/p' "$root/tests/drivers/database.sql") >/dev/null
    sed '1,/^SET ROLE shop/d; s/\<shop\>/mallory/g' "$root/tests/drivers/database.sql" | psql -Xq -U mallory >/dev/null
}

teardown_file() { PGDATABASE=postgres psql -Xqc 'DROP DATABASE rights WITH (FORCE)' -c 'DROP ROLE shop' -c 'DROP ROLE mallory'; }

@test "the list of functions with the owner's rights is complete" {
    diff <(sed -n '/^#/d; s/ | .*//p' "$root/tests/portable/definers") \
        <(sql postgres "SELECT replace(p.oid::regprocedure::text, 'idem.', '') AS name FROM pg_proc p WHERE pronamespace = 'idem'::regnamespace AND prosecdef
                         ORDER BY p.oid::regprocedure::text COLLATE \"C\"")
}

# A type that an ordinary role can make, and a polymorphic one, would bring code with it.
@test "they take values of the server's types and of idem's alone" {
    [ -z "$(sql postgres "SELECT p.oid::regprocedure, t::regtype FROM pg_proc p, unnest(p.proargtypes) AS t JOIN pg_type y ON y.oid = t
                           WHERE p.pronamespace = 'idem'::regnamespace AND p.prosecdef
                             AND (y.typnamespace NOT IN ('pg_catalog'::regnamespace, 'idem'::regnamespace) OR y.typtype NOT IN ('b', 'e') AND t <> 'idem.idem_ticket'::regtype)")" ]
}

@test "no name is looked up in a schema of others: every path is pg_catalog, pg_temp" {
    [ -z "$(sql postgres "SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'idem'::regnamespace
                             AND (prosecdef AND proconfig IS NULL OR EXISTS (SELECT FROM unnest(proconfig) c WHERE c LIKE 'search_path=%' AND c <> 'search_path=pg_catalog, pg_temp'))")" ]
}

@test "bodies name the helpers and the relations of idem with their schema" {
    [ -z "$(sql postgres "SELECT p.proname, named[1] FROM pg_proc p, regexp_matches(p.prosrc, '[^.a-z_](_idem_[a-z_]+)\(|(?:from|join|into|update|only|table) +(_?idem_[a-z_]+)', 'gi') AS named
                           WHERE pronamespace = 'idem'::regnamespace
                             AND (EXISTS (SELECT FROM pg_proc WHERE proname = named[1]) OR EXISTS (SELECT FROM pg_class WHERE relname = named[2]))")" ]
}

@test "helpers that read rows and write the log are the owner's alone" {
    [ "$(sql mallory "SELECT count(*) FROM pg_proc WHERE pronamespace = 'idem'::regnamespace AND has_function_privilege(oid, 'EXECUTE')
                         AND proname IN ('_idem_states_of_row', '_idem_check_guarded_column', '_idem_log_move', '_idem_row_name', '_idem_note_departure', '_idem_take_departure')")" = 0 ]
}

# Every call of tests/drivers/calls.json, and each of these functions with NULL and with a value of a type of mallory's, in a session with all of her code.
attack() {
    /usr/bin/python3 "$root/tests/portable/calls.py" "$root/tests/drivers/calls.json" >"$BATS_TEST_TMPDIR/calls.sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/calls.sql")" -gt 60 ]
    sql postgres "SELECT format('SELECT idem.%I(%s);', p.proname, array_to_string(ARRAY(SELECT coalesce('''a''::pg_temp.' || v, 'NULL') FROM unnest(p.proargtypes)), ', '))
                    FROM pg_proc p, unnest('{NULL,mood}'::text[]) AS v
                   WHERE p.pronamespace = 'idem'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype" >>"$BATS_TEST_TMPDIR/calls.sql"
    # Before its first call, the validator compiles a function under her path; and for an argument of no collation, as one of two is.
    sql mallory "SELECT format('SELECT pg_catalog.plpgsql_validator(%s);', p.oid) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'plpgsql'
                   WHERE p.pronamespace = 'idem'::regnamespace AND has_function_privilege(p.oid, 'EXECUTE')" >"$BATS_TEST_TMPDIR/compiled.sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/compiled.sql")" -gt 100 ]
    sed -E "s/'([^']*)'/a.a || b.b/; s/^SELECT (.*);$/SELECT \\1 FROM (SELECT 'a'::pg_catalog.text COLLATE \"C\" AS a) a, (SELECT 'b'::pg_catalog.text COLLATE \"POSIX\" AS b) b;/" \
        "$BATS_TEST_TMPDIR/calls.sql" >"$BATS_TEST_TMPDIR/mixed.sql"
    psql -XAtq -U mallory -f "$root/tests/portable/mallory.sql" -c 'SET statement_timeout = 5000' -c 'SET search_path = pg_temp, lair, idem, pg_catalog, public' \
        -f "$BATS_TEST_TMPDIR/compiled.sql" -f "$BATS_TEST_TMPDIR/calls.sql" -f "$BATS_TEST_TMPDIR/mixed.sql" >"$BATS_TEST_TMPDIR/answers" 2>&1 || true
    grep -qx t "$BATS_TEST_TMPDIR/answers"
}

# Whether any of it ran as somebody else, and as mallory.
stolen() { sql postgres 'SELECT s.is_called, o.is_called FROM lair.stolen s, lair.own o'; }

@test "no cast, operator, domain, overload or temporary object of the caller's runs in them" {
    attack
    [ "$(stolen)" = 'f|t' ]
}

# Which the installation takes from all, and idem_health reports.
@test "nor an overload of the server's functions in idem's own schema, of a role that may create there" {
    sql shop 'GRANT CREATE ON SCHEMA idem TO mallory'
    attack
    [ "$(sql postgres "SELECT count(*) > 10 FROM pg_proc WHERE pronamespace = 'idem'::regnamespace AND proowner = 'mallory'::regrole")" = t ]
    [ "$(stolen)" = 'f|t' ]
}

# The transition table of a trigger hides every table whose name is written without a schema in the trigger's function.
@test "nor does a trigger's transition table take the place of the catalog's tables" {
    psql -XAtq -U mallory -f "$root/tests/portable/mallory.sql" -f - >"$BATS_TEST_TMPDIR/answers" 2>&1 <<'SQL'
CREATE TABLE lair.moved (s text PRIMARY KEY, oid pg_temp.mood, nspowner pg_temp.mood, nspname pg_temp.mood, attrelid pg_temp.mood, attname pg_temp.mood,
                         tgrelid pg_temp.mood, name pg_temp.mood, definition pg_temp.mood);
SELECT format('CREATE TRIGGER guard AFTER INSERT ON lair.moved REFERENCING NEW TABLE AS %I FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard(''m'', ''s'', ''log'', ''valid'')', hidden),
       $$INSERT INTO lair.moved VALUES ('a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a')$$, 'DROP TRIGGER guard ON lair.moved'
  FROM unnest('{pg_namespace,pg_attribute,pg_type,pg_class,pg_trigger,pg_index,idem_machines,idem_transition_log,_idem_departures}'::name[]) AS hidden \gexec
SQL
    [ "$(grep -c 'guard.* does not exist' "$BATS_TEST_TMPDIR/answers")" = 0 ]
    [ "$(stolen)" = 'f|t' ]
}

# The guard's queries of the catalog show the table as the snapshot has it, and the row is of today.
@test "nor a cast of a type that a column has got after the snapshot of the transaction that writes" {
    psql -XAtq -U mallory -f - >"$BATS_TEST_TMPDIR/answers" 2>&1 <<SQL
CREATE TYPE lair.ev AS ENUM ('x');
CREATE FUNCTION lair.to_json(lair.ev) RETURNS json LANGUAGE plpgsql AS 'BEGIN PERFORM lair.run(\$\$cast\$\$); RETURN 1; END';
CREATE CAST (lair.ev AS json) WITH FUNCTION lair.to_json(lair.ev);
CREATE TABLE lair.logged (id int PRIMARY KEY, status text);
CREATE TRIGGER g AFTER INSERT ON lair.logged FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard('order', 'status', 'log', 'valid');
CREATE TABLE lair.renamed (to_jsonb text, other text);
CREATE TRIGGER g AFTER INSERT ON lair.renamed FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard('order', 'to_jsonb', 'log', 'valid');
SELECT to_json('x'::lair.ev); -- the cast is taken
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1;
\! psql -Xq -U mallory -c "ALTER TABLE lair.logged ALTER id TYPE lair.ev USING 'x'" -c 'ALTER TABLE lair.renamed RENAME to_jsonb TO x' -c "ALTER TABLE lair.renamed ALTER other TYPE lair.ev USING 'x'"
SAVEPOINT s;
INSERT INTO lair.logged VALUES ('x', 'created');
ROLLBACK TO s;
INSERT INTO lair.renamed VALUES ('x', 'x');
ROLLBACK;
DROP TABLE lair.logged, lair.renamed;
SQL
    cat "$BATS_TEST_TMPDIR/answers"
    [ "$(stolen)" = 'f|t' ]
}

# A restore revokes last what everybody has.
@test "what changes rights is for the owner, also while everybody may execute it" {
    sql shop 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA idem TO public'
    for call in "idem_grant('mallory', true)" "idem_revoke('mallory')" 'idem_set_privileges()'; do
        run sql mallory '\set VERBOSITY verbose' "SELECT idem.$call"
        [[ $output == *'ERROR:  42501: permission denied for function'* ]] || { echo "$call: $output" && false; }
    done
    sql shop 'SELECT idem.idem_set_privileges()' "SELECT idem.idem_grant('mallory', operator => true)"
    sql postgres "SELECT idem.idem_grant('mallory', operator => true)"
}

# Reading rows names the table. Its owner, or that of its schema, can put a view in its place at any time.
@test "idem_machine_define reads rows of tables alone whose owners its caller trusts" {
    local initial="SELECT idem.idem_machine_define('lost', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"]}}')" fewer="SELECT idem.idem_machine_define('lost', '{\"initial\": [\"a\"], \"transitions\": {\"a\": []}}')"
    local guard="FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard('lost', 's', 'no log', 'valid')"
    sql postgres 'CREATE ROLE clerk' 'GRANT clerk TO shop' 'CREATE SCHEMA desk AUTHORIZATION clerk' 'CREATE TABLE desk.item (s text)' 'ALTER TABLE desk.item OWNER TO clerk'
    sql shop "SELECT idem.idem_grant('clerk')" "$initial" 'CREATE SCHEMA shop' 'GRANT ALL ON SCHEMA shop TO mallory' 'CREATE TABLE shop.item (s text)' "CREATE TRIGGER g AFTER INSERT OR UPDATE ON shop.item $guard" \
        'SET ROLE clerk' "CREATE TRIGGER g AFTER INSERT OR UPDATE ON desk.item $guard"
    [ -z "$(sql shop "$fewer" "$initial")" ]
    sql postgres 'REVOKE clerk FROM shop' 'GRANT USAGE ON SCHEMA desk TO shop' 'GRANT ALL ON desk.item TO shop'
    refused shop 'Table "item" belongs to role "clerk"'
    sql postgres 'ALTER TABLE desk.item OWNER TO shop'
    refused shop 'Schema "desk" belongs to role "clerk"'
    refused postgres 'belongs to role'
    sql postgres 'DROP SCHEMA desk CASCADE' 'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA idem FROM clerk' 'DROP OWNED BY clerk' 'DROP ROLE clerk' 'DROP TABLE IF EXISTS shop.item'
    sql mallory 'CREATE SCHEMA mal' 'CREATE TABLE mal.item (s text)' "CREATE TRIGGER g AFTER INSERT OR UPDATE ON mal.item $guard" 'GRANT ALL ON SCHEMA mal TO public' 'GRANT ALL ON mal.item TO public'
    refused shop 'Table "item" belongs to role "mallory"'
    sql mallory 'DROP SCHEMA mal CASCADE'
    sql shop "$fewer"
}

# refused ROLE DETAIL: 42501 for $fewer.
refused() {
    run sql "$1" '\set VERBOSITY verbose' "$fewer"
    [[ $output == *'ERROR:  42501: cannot look at the rows of table'*"$2"*'HINT:'* ]] || { echo "$output" && false; }
}

@test "with the search_path that the pages give to operators, a look-alike in public is not called" {
    sql mallory 'CREATE FUNCTION public.idem_health() RETURNS text LANGUAGE sql AS $$ SELECT current_user::text $$'
    for page in operations.md managed.md zh/operations.md; do
        path=$(sed -n 's/.*ALTER ROLE ops SET search_path = \([a-z, ]*\).*/\1/p' "$root/docs/$page")
        [ "$(sql shop "SET search_path = $path" 'SELECT count(*) > 1 FROM idem_health()')" = t ]
    done
    sql mallory 'DROP FUNCTION public.idem_health()'
}
