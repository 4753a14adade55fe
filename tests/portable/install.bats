# Installing the portable edition and taking it away, and moving data between the editions. On the cluster of the environment; each test has databases of its own.

load common

setup_file() {
    build_portable
    psql -Xqc 'CREATE ROLE shop LOGIN' -c 'CREATE ROLE teller LOGIN'
}

teardown_file() { psql -Xqc 'DROP ROLE shop' -c 'DROP ROLE teller'; }

setup() {
    export PGDATABASE=install_$BATS_TEST_NUMBER
    PGDATABASE=postgres psql -Xqc "CREATE DATABASE install_$BATS_TEST_NUMBER OWNER shop TEMPLATE template0"
}

teardown() { PGDATABASE=postgres psql -Xqc "DROP DATABASE IF EXISTS install_$BATS_TEST_NUMBER WITH (FORCE)" -c "DROP DATABASE IF EXISTS other_$BATS_TEST_NUMBER WITH (FORCE)"; }

# run_script FILE [SCHEMA [ROLE]]
run_script() { psql -XAtq -U "${3:-shop}" --set=ON_ERROR_STOP=1 ${2:+--command="SET idem.schema = '$2'"} --file="$root/build/$1"; }

install() { run_script idem--portable.sql "$@"; }

uninstall() { run_script idem--portable-uninstall.sql "$@"; }

# Whatever is in the schema.
objects() {
    sql postgres "SELECT count(*) FROM (SELECT relnamespace FROM pg_class UNION ALL SELECT pronamespace FROM pg_proc UNION ALL SELECT typnamespace FROM pg_type) o (n) WHERE n = '$1'::regnamespace"
}

@test "an owner of a database installs it, and again, and keys stay" {
    install
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = t ]
    install
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = f ]
    [ "$(sql shop "SELECT edition FROM idem.idem_version()")" = portable ]
    [ "$(sql shop "SELECT count(*) FROM idem.idem_health() WHERE level <> 'ok'")" = 0 ]
}

@test "other roles may do what they are granted, also after it was installed again" {
    install
    sql shop "SELECT idem.idem_grant('teller')"
    install
    [ "$(sql teller "SELECT idem.idem_claim('k')")" = t ]
    run sql teller "SELECT idem.idem_forget('k')"
    [[ $output == *'permission denied'* ]]
    run sql teller "SELECT * FROM idem.idem_keys"
    [[ $output == *'permission denied'* ]]
}

@test "it is taken away, and leaves nothing" {
    install
    sql shop "SELECT idem.idem_claim('k')"
    uninstall
    [ "$(objects idem)" = 0 ]
}

@test "it is taken away by the owner of its schema alone: what another has there would run as the caller" {
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    sql teller 'CREATE SCHEMA trap' 'CREATE TABLE trap.idem_keys ()' 'CREATE TABLE trap.stolen ()' 'GRANT ALL ON SCHEMA trap TO PUBLIC' \
        "CREATE FUNCTION trap.run() RETURNS regclass LANGUAGE plpgsql AS \$\$ BEGIN DROP TABLE trap.stolen; RETURN 'pg_class'; END \$\$" \
        "CREATE VIEW trap.idem_guards AS SELECT trap.run() AS target, 'state' AS kind, 'x'::name AS column_name" 'GRANT ALL ON trap.idem_guards TO PUBLIC'
    for role in shop postgres; do
        run uninstall trap "$role"
        [[ $output == *'must be owner of schema trap'* ]]
    done
    [ "$(sql postgres "SELECT to_regclass('trap.stolen')")" = trap.stolen ]
}

@test "it is not taken away while tables have guards: all are named, with what to call" {
    install
    sql shop 'CREATE TABLE item (id int PRIMARY KEY)' "SELECT idem.optimistic_enable('item')" \
        'CREATE TABLE "Order 1" ("the state" text, other text)' "SELECT idem.idem_machine_define('m', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"], \"b\": []}}')" \
        "SELECT idem.idem_machine_attach('\"Order 1\"', 'the state', 'm'), idem.idem_machine_attach('\"Order 1\"', 'other', 'm')" \
        "CREATE TABLE hand (s text)" "CREATE TRIGGER mine AFTER UPDATE OF s ON hand FOR EACH ROW EXECUTE FUNCTION idem.idem_state_guard('m', 's', 'no log', 'valid')"
    run uninstall
    [ "$status" -ne 0 ]
    [[ $output == *'ERROR:  cannot remove idem because tables have guards'* ]]
    [[ $output == *'version "version" of table public.item'*'state "other" of table public."Order 1"'*'state "the state" of table public."Order 1"'*'trigger "mine" of table public.hand'* ]]
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = t ]
    sql shop "$(sed -n 's/^HINT:  Run first: //p' <<<"$output")"
    uninstall
    [ "$(objects idem)" = 0 ]
}

@test "the schema may have any name" {
    install 'Idem "1"; DROP'
    [ "$(sql shop "SELECT \"Idem \"\"1\"\"; DROP\".idem_claim('k')")" = t ]
    [ "$(sql shop "SELECT outcome FROM \"Idem \"\"1\"\"; DROP\".idem_execute('e', 'SELECT 1 AS one')")" = acquired ]
    uninstall 'Idem "1"; DROP'
    [ "$(objects '"Idem ""1""; DROP"')" = 0 ]
}

@test "an installation that fails leaves nothing" {
    sql shop 'CREATE SCHEMA idem' 'CREATE TABLE idem.idem_outbox ()'
    run install
    [ "$status" -ne 0 ]
    [ "$(objects idem)" = 3 ] # the table and its two types
}

@test "an installation that was interrupted is done as if it had never begun" {
    run bash -c 'head -n 3000 "$root/build/idem--portable.sql" | psql -XAtq -U shop'
    [ -z "$(sql shop "SELECT to_regnamespace('idem')")" ]
    install
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = t ]
}

# Its effect on the session's settings ends with it, and its own effect with the transaction.
@test "in a transaction, it is part of it" {
    run psql -XAtq -U shop -c 'SET search_path = "$user", public' -c BEGIN -f "$root/build/idem--portable.sql" -c "SELECT idem.idem_claim('k')" \
        -c "SELECT concat_ws(' ', current_setting('search_path'), current_setting('check_function_bodies'), current_setting('client_min_messages'))" -c ROLLBACK
    [ "${lines[0]}" = t ]
    [ "${lines[1]}" = '"$user", public on warning' ]
    [ -z "$(sql shop "SELECT to_regnamespace('idem')")" ]
}

@test "each file is one statement without commands of psql" {
    local file
    for file in idem--portable.sql idem--portable-uninstall.sql; do
        [ "$(grep -c '^\\' "$root/build/$file")" = 0 ]
        [ "$(grep -v '^--' "$root/build/$file" | head -n 1 | cut -d' ' -f1)" = DO ]
        [ "$(psql -XAt -U shop --file="$root/build/$file" | sort | uniq -c | tr -d ' ')" = 1DO ]
    done
}

@test "a build that fails leaves the files as they were" {
    local before
    before=$(cksum "$root"/build/idem--portable*.sql)
    run make --silent --directory="$root" portable PORTABLE_FILES=sql
    [ "$status" -ne 0 ]
    [ "$(cksum "$root"/build/idem--portable*.sql)" = "$before" ]
}

# The functions, with all that a call of them depends on.
functions() { sql postgres "SELECT format('%s %s %s', p.oid::regprocedure, pg_get_function_result(p.oid), md5(prosrc)) FROM pg_proc p WHERE pronamespace = 'idem'::regnamespace ORDER BY 1"; }

@test "an upgrade drops what this version no longer has, and keeps grants" {
    install
    sql shop "SELECT idem.idem_grant('teller')"
    functions >"$BATS_TEST_TMPDIR/new"
    sql shop "CREATE FUNCTION idem.idem_claim(key text, ttl integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'" \
        "CREATE FUNCTION idem._idem_claim_as_before() RETURNS boolean LANGUAGE sql AS 'SELECT true'" \
        "CREATE PROCEDURE idem.idem_sweep_as_before() LANGUAGE sql AS ''" \
        'DROP FUNCTION idem._idem_hmac(bytea, bytea)' "CREATE FUNCTION idem._idem_hmac(old_name bytea, message bytea) RETURNS bytea LANGUAGE sql AS 'SELECT message'" \
        'DROP FUNCTION idem._idem_random()' "CREATE FUNCTION idem._idem_random() RETURNS text LANGUAGE sql AS 'SELECT 1::text'" \
        'GRANT EXECUTE ON FUNCTION idem._idem_log_move(oid, name, record, name, text, text) TO public'
    install
    diff "$BATS_TEST_TMPDIR/new" <(functions)
    [ "$(sql shop "SELECT count(*) FROM idem.idem_health() WHERE check_name = 'privileges' AND level <> 'ok'")" = 0 ]
    [ "$(sql teller "SELECT idem.idem_claim('k')")" = t ]
}

# Which had a CHECK, as the C edition has.
@test "the states of an installation before have a domain after it, and keys, locks and tokens stay" {
    install
    sql shop "SELECT idem.idem_claim('k'), idem.idem_lock('l', '1 hour')" "SELECT idem.idem_begin('leased', lease => '1 hour')" \
        "SELECT idem.idem_token_redeem(idem.idem_token_issue())" >/dev/null
    pg_dump "$PGDATABASE" | sed '/^\\\(un\)\?restrict /d' >"$BATS_TEST_TMPDIR/new"
    for table in keys tokens locks; do
        sql shop "ALTER TABLE idem.idem_$table ALTER state TYPE \"char\", ADD CHECK (state IN ('p', 'c', 'r', 'd'))"
    done
    sql shop 'ALTER TABLE idem._idem_replaced_keys ALTER state TYPE "char"' 'DROP DOMAIN idem._idem_state'
    install
    diff "$BATS_TEST_TMPDIR/new" <(pg_dump "$PGDATABASE" | sed '/^\\\(un\)\?restrict /d')
    [ "$(sql shop "SELECT idem.idem_claim('k'), idem.idem_lock('l', '1 hour'), outcome FROM idem.idem_begin('leased', lease => '1 hour')")" = 'f||in_flight' ]
    run sql shop "UPDATE idem.idem_keys SET state = 'x'"
    [[ $output == *'violates check constraint'* ]]
}

@test "a schema of another role is refused" {
    sql postgres 'CREATE SCHEMA idem' 'GRANT ALL ON SCHEMA idem TO shop'
    run install
    [[ $output == *'ERROR:  must be owner of schema idem'*'The owner is "postgres"'* ]]
    [ "$(objects idem)" = 0 ]
    sql postgres 'REVOKE CREATE ON SCHEMA idem FROM shop'
    run install idem postgres
    [ "$status" -eq 0 ]
    run install
    [[ $output == *'must be owner of schema idem'* ]]
}

@test "a schema with objects that are not idem's is refused, and they are named" {
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    sql shop 'CREATE SCHEMA idem' 'GRANT ALL ON SCHEMA idem TO teller' 'CREATE TABLE idem.notes ()' "CREATE FUNCTION idem.format(text, text) RETURNS text LANGUAGE sql AS 'SELECT 1::text'"
    sql teller 'CREATE TABLE idem.idem_keys (key text)' "CREATE FUNCTION idem.idem_claim() RETURNS text LANGUAGE sql AS 'SELECT 1::text'" \
        'CREATE OPERATOR idem.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)' 'CREATE COLLATION idem.c FROM "C"' "CREATE DOMAIN idem.text AS pg_catalog.text"
    run install
    [[ $output == *"ERROR:  schema \"idem\" has objects that are not idem's"* ]]
    for object in 'table idem.notes' 'function idem.format(text,text)' 'table idem.idem_keys' 'function idem.idem_claim()' 'operator idem.===(text,text)' 'collation idem.c' 'type idem.text'; do
        [[ $output == *"$object"* ]]
    done
}

@test "no other role may create in the schema, and idem_health says so when one may" {
    sql postgres 'ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO public' 'ALTER DEFAULT PRIVILEGES FOR ROLE shop GRANT ALL ON SCHEMAS TO public'
    install
    [ "$(sql teller "SELECT has_schema_privilege('idem', 'CREATE')")" = f ]
    [ "$(sql shop "SELECT level FROM idem.idem_health() WHERE check_name = 'schema'")" = ok ]
    sql shop 'GRANT CREATE ON SCHEMA idem TO teller WITH GRANT OPTION'
    sql teller 'GRANT CREATE ON SCHEMA idem TO public'
    [ "$(sql shop "SELECT level, detail FROM idem.idem_health() WHERE check_name = 'schema'")" = \
        "critical|Roles may create objects in schema idem, which can take the place of idem's: PUBLIC, teller. Run REVOKE CREATE ON SCHEMA idem FROM PUBLIC, teller CASCADE." ]
    run install
    [[ $output == *'ERROR:  other roles may create objects in schema "idem"'*'The roles are: PUBLIC, teller.'*'REVOKE CREATE ON SCHEMA idem FROM PUBLIC, teller CASCADE'* ]]
    sql shop 'REVOKE CREATE ON SCHEMA idem FROM PUBLIC, teller CASCADE'
    install
    [ "$(sql teller "SELECT has_schema_privilege('idem', 'CREATE')")" = f ]
    [ "$(sql shop "SELECT level FROM idem.idem_health() WHERE check_name = 'schema'")" = ok ]
    sql postgres 'ALTER SCHEMA idem OWNER TO teller'
    run sql postgres 'SELECT * FROM idem.idem_health()'
    [[ $output == *'the schema of idem was renamed or has another owner'* ]]
}

# A transaction that was open before the installation has an object in the schema which the installation does not see, and which takes a helper's place.
@test "a schema in which others may create is refused before anything is made, and idem_health names objects that are not the owner's" {
    sql shop 'CREATE SCHEMA idem' 'GRANT ALL ON SCHEMA idem TO teller'
    psql -XAtq -U teller -c BEGIN -c "CREATE FUNCTION idem._idem_hash(text, text, integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'" -c "SELECT 'made'" \
        -c "\\! until [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.05; done" -c COMMIT >"$BATS_TEST_TMPDIR/open" 3>&- &
    local session=$!
    until grep -q made "$BATS_TEST_TMPDIR/open"; do sleep 0.05; done
    run install
    touch "$BATS_TEST_TMPDIR/go"
    wait "$session"
    [[ $output == *'ERROR:  other roles may create objects in schema "idem"'* ]]
    [ "$(objects idem)" = 1 ]
    sql shop 'REVOKE CREATE ON SCHEMA idem FROM teller'
    run install
    [[ $output == *'function idem._idem_hash(text,text,integer)'* ]]
    sql teller 'DROP FUNCTION idem._idem_hash'
    install
    sql shop 'GRANT CREATE ON SCHEMA idem TO teller'
    sql teller "CREATE FUNCTION idem._idem_hash(text, text, integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'"
    sql shop 'REVOKE CREATE ON SCHEMA idem FROM teller'
    [ "$(sql shop "SELECT level, detail FROM idem.idem_health() WHERE check_name = 'schema'")" = \
        "critical|Objects in schema idem are not its owner's, and can take the place of idem's: function idem._idem_hash(text,text,integer) of teller. Drop them." ]
}

@test "a schema name that statements cannot have is refused" {
    local name
    for name in "a''b" 'a$b' 'a%b' 'a@b'; do
        run install "$name"
        [[ $output == *'ERROR:  schema name'*'is not supported'* ]]
    done
    run install "$(printf 'n%.0s' {1..64})"
    [[ $output == *'ERROR:  schema name'*'is too long'* ]]
}

@test "two installations in one database do not wait for each other" {
    install
    install work
    sql shop BEGIN "SELECT idem.idem_claim('k'), idem.idem_serialize('q'), idem.idem_lock('l'), idem.idem_publish('t', '1', key => 'm')" \
        "SELECT count(*) FROM idem.idem_claim_many(ARRAY(SELECT 'many ' || n FROM generate_series(1, 60) n))" \
        "SELECT work.idem_try_claim('k'), work.idem_lock('l') IS NOT NULL" "SET lock_timeout = '2 s'" "SELECT work.idem_publish('t', '1', key => 'm') IS NOT NULL" COMMIT >/dev/null
    # The locks of one session, as another sees them.
    sql shop BEGIN "SELECT idem.idem_grant('teller'), idem.idem_claim('k2'), idem.idem_serialize('q'), idem.idem_lock('l2'), idem.idem_publish('t', '1', key => 'm2')" \
        "SELECT id FROM idem.idem_outbox_take('t')" "SELECT 'held'" "SELECT pg_sleep(60)" >"$BATS_TEST_TMPDIR/held" 3>&- &
    local session=$!
    until grep -q held "$BATS_TEST_TMPDIR/held"; do sleep 0.05; done
    [ "$(sql shop "SET lock_timeout = '2 s'" "SELECT idem.idem_try_claim('k2')")" = in_flight ]
    sql shop "SET lock_timeout = '2 s'" "SELECT work.idem_grant('teller'), work.idem_revoke('teller')" >/dev/null
    [ "$(sql shop "SET lock_timeout = '2 s'" "SELECT work.idem_try_claim('k2'), work.idem_serialize('q'), work.idem_lock('l2') IS NOT NULL, work.idem_publish('t', '1', key => 'm2') IS NOT NULL")" = 'acquired|t|t|t' ]
    [ "$(sql shop "SET lock_timeout = '2 s'" "SELECT count(*) FROM work.idem_outbox_take('t')")" = 2 ]
    kill "$session"
}

# Each notes the state of a row that moves, in a setting of the transaction, and takes its own note.
@test "two installations guard the same table" {
    install
    install work
    sql shop 'CREATE TABLE item (id int, k int, s text, t text) PARTITION BY LIST (k)' 'CREATE TABLE item1 PARTITION OF item FOR VALUES IN (1)' 'CREATE TABLE item2 PARTITION OF item FOR VALUES IN (2)'
    for schema in idem work; do
        sql shop "SELECT $schema.idem_machine_define('m', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"], \"b\": [\"c\"], \"c\": []}}')"
    done
    sql shop "SELECT idem.idem_machine_attach('item', 's', 'm'), work.idem_machine_attach('item', 't', 'm')" "INSERT INTO item SELECT i, 1, 'a', 'a' FROM generate_series(1, 3) AS i" \
        "UPDATE item SET s = 'b', t = 'b'" "UPDATE item SET k = 2" "UPDATE item SET k = 1, s = 'c', t = 'c'"
    [ "$(sql shop "SELECT DISTINCT k, s, t FROM item")" = '1|c|c' ]
}

# A stranger who may create a schema gives it the old name of idem's, and puts a function with each of its signatures and views in the place of its tables there.
make_trap() {
    sql teller 'CREATE SCHEMA idem' 'GRANT ALL ON SCHEMA idem TO public' 'CREATE SEQUENCE idem.stolen' 'GRANT ALL ON SEQUENCE idem.stolen TO public' \
        "CREATE FUNCTION idem.run(what text) RETURNS bigint LANGUAGE sql AS 'SELECT CASE WHEN current_user <> ''teller'' THEN nextval(''idem.stolen'') END'"
    sql postgres "SELECT format('CREATE TYPE idem.%I AS %s;', typname, CASE typtype WHEN 'e' THEN 'ENUM (''a'')' ELSE '(a int)' END) FROM pg_type
                   WHERE typnamespace = 'moved'::regnamespace AND (typtype = 'e' OR typtype = 'c' AND NOT EXISTS (SELECT FROM pg_class WHERE oid = typrelid AND relkind <> 'c'))" \
        "SELECT format('CREATE VIEW idem.%I AS SELECT *, idem.run(%1\$L) FROM (VALUES (1)) v (a);', relname) FROM pg_class WHERE relnamespace = 'moved'::regnamespace AND relkind IN ('r', 'v')" \
        "SELECT format('CREATE FUNCTION idem.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L;', proname, replace(pg_get_function_identity_arguments(oid), 'moved.', 'idem.'),
                       replace(pg_get_function_result(oid), 'moved.', 'idem.'), format('BEGIN PERFORM idem.run(%L); RAISE ''trapped''; END', proname))
           FROM pg_proc WHERE pronamespace = 'moved'::regnamespace AND prokind = 'f'" >"$BATS_TEST_TMPDIR/trap.sql"
    psql -XAtq -U teller --file="$BATS_TEST_TMPDIR/trap.sql" 2>"$BATS_TEST_TMPDIR/trap.log" || true
    [ "$(sql postgres "SELECT count(*) > 300 FROM pg_proc WHERE pronamespace = 'idem'::regnamespace")" = t ]
}

# make_calls: of every function with its owner's rights, with NULL, or with text where that is taken. The guard is called by a trigger.
make_calls() {
    sql postgres "SELECT format('SELECT moved.%I(%s);', p.proname, (SELECT string_agg(CASE WHEN t = 'text'::regtype OR p.provariadic <> 0 AND t = 'text[]'::regtype THEN '''k''::text'
                                                                                                 ELSE format('NULL::%s', t::regtype) END, ', ')
                                                                        FROM unnest(p.proargtypes) AS t))
                    FROM pg_proc p WHERE p.pronamespace = 'moved'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype
                     AND has_function_privilege('teller', p.oid, 'EXECUTE')" >"$BATS_TEST_TMPDIR/calls.sql"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/calls.sql")" -gt 60 ]
}

# call_in_open_transaction LEVEL: calls of each function in a transaction of this isolation level that was open at the time of ALTER SCHEMA RENAME.
call_in_open_transaction() {
    local at=$BATS_TEST_TMPDIR
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    install
    sql shop "SELECT idem.idem_grant('teller', operator => true)"
    psql -XAtq -U teller --set=ON_ERROR_ROLLBACK=on -c "BEGIN ISOLATION LEVEL $1" -c "SELECT idem.idem_claim('k'), idem.idem_lock('l'), idem.idem_hit('h')" \
        -f <(printf '%s\n' "\\! touch $at/open; until [ -e $at/renamed ]; do sleep 0.05; done" \
                'SELECT idem.idem_claim(NULL); -- which the session still finds, as nothing has made it look' \
                "\\! touch $at/called; until [ -e $at/trapped ]; do sleep 0.05; done" "\\i $at/calls.sql") >"$at/calls" 2>&1 3>&- &
    local session=$!
    until [ -e "$at/open" ]; do sleep 0.05; done
    sql shop 'ALTER SCHEMA idem RENAME TO moved'
    touch "$at/renamed"
    until [ -e "$at/called" ]; do sleep 0.05; done
    make_trap
    make_calls
    touch "$at/trapped"
    wait "$session" || true
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
    [ "$(grep -c 'ERROR:  the schema of idem' "$at/calls")" -eq $(($(wc -l <"$at/calls.sql") + 1)) ]
}

@test "calls fail, too, in a transaction that was open at the time of ALTER SCHEMA RENAME" { call_in_open_transaction 'READ COMMITTED'; }

@test "calls fail, too, in a transaction whose snapshot shows the schema as it was before ALTER SCHEMA RENAME" { call_in_open_transaction 'REPEATABLE READ'; }

# The session still finds all names as they were, until it locks a table that its transaction has not locked before.
@test "calls fail, too, in a transaction that was open at the time of ALTER SCHEMA RENAME and had used no table" {
    local at=$BATS_TEST_TMPDIR call sessions=()
    local calls=("idem.idem_claim('new')" "idem.idem_try_claim('new')" "idem.idem_begin('new')" "idem.idem_complete('new')")
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    install
    sql shop "SELECT idem.idem_grant('teller')"
    for call in "${calls[@]}"; do
        psql -XAtq -U teller -c "SELECT ${call/new/${#sessions[@]}}" -c "SELECT ${call/new/${#sessions[@]}}" -c BEGIN -c "SELECT 'open'" -c "\\! until [ -e $at/trapped ]; do sleep 0.05; done" \
            -c "SELECT $call" >"$at/session${#sessions[@]}" 2>&1 3>&- &
        sessions+=($!)
    done
    until [ "$(grep -l open "$at"/session* | wc -l)" = ${#calls[@]} ]; do sleep 0.05; done
    sql shop 'ALTER SCHEMA idem RENAME TO moved'
    make_trap
    touch "$at/trapped"
    wait "${sessions[@]}" || true
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
    cat "$at"/session*
    # One that has read what others changed finds the stranger's function, which runs as its caller, or none.
    [ "$(sed '1,/^open$/d' -s "$at"/session* | grep -c 'ERROR:  \(the schema of idem\|trapped\|function idem.* does not exist\)')" = ${#calls[@]} ]
}

# What a call needs is known by its OIDs, and nobody but the owner of a table can give its name to another.
@test "a new owner of the schema runs nothing with the rights of the owner before" {
    install
    sql shop "SELECT idem.idem_grant('teller')"
    sql postgres 'ALTER SCHEMA idem OWNER TO teller' 'GRANT USAGE ON SCHEMA idem TO PUBLIC'
    [ "$(sql teller "SELECT idem.idem_claim('k')" "SELECT idem.idem_claim('k')")" = $'t\nf' ]
    run sql teller "SELECT idem.idem_claim('')"
    [[ $output == *'the schema of idem was renamed or has another owner'* ]]
    sql teller 'CREATE SEQUENCE idem.stolen' "CREATE FUNCTION idem.run() RETURNS boolean LANGUAGE sql AS \$\$ SELECT nextval('idem.stolen') > 0 \$\$" \
        'DROP TABLE idem.idem_scopes CASCADE' 'CREATE VIEW idem.idem_scopes AS SELECT NULL::text AS scope WHERE idem.run()' 'GRANT ALL ON idem.idem_scopes, idem.stolen TO PUBLIC'
    run sql teller "SELECT idem.idem_claim('new')"
    [[ $output == *'the schema of idem was renamed or has another owner'* ]]
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
}

@test "after ALTER SCHEMA RENAME calls fail, a stranger's schema of the old name is not used, and the script repairs it" {
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    install
    sql shop "SELECT idem.idem_grant('teller', operator => true)" "SELECT idem.idem_claim('k')" 'CREATE TABLE item (id int, s text)' \
        "SELECT idem.idem_machine_define('m', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"], \"b\": []}}')" "SELECT idem.idem_machine_attach('item', 's', 'm')" \
        'ALTER SCHEMA idem RENAME TO moved'
    run sql teller "SELECT moved.idem_claim('k')"
    [[ $output == *'the schema of idem was renamed or has another owner'* ]]
    make_trap
    make_calls
    psql -XAtq -U teller --file="$BATS_TEST_TMPDIR/calls.sql" >"$BATS_TEST_TMPDIR/calls" 2>&1 || true
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
    [ "$(grep -c 'ERROR:  the schema of idem' "$BATS_TEST_TMPDIR/calls")" -eq "$(wc -l <"$BATS_TEST_TMPDIR/calls.sql")" ]
    run sql shop "INSERT INTO item VALUES (1, 'a')"
    [[ $output == *'the schema of idem was renamed or has another owner'*'run idem--portable.sql with the new name'* ]]
    for call in "idem_grant('teller')" "idem_revoke('teller')" 'idem_set_privileges()' 'idem_unintended_privileges()' 'idem_members()'; do
        for role in shop postgres; do
            run sql "$role" "SELECT moved.$call"
            [[ $output == *'the schema of idem was renamed or has another owner'* ]]
        done
    done
    run uninstall idem postgres
    [[ $output == *'must be owner of schema idem'* ]]
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
    install moved
    [ "$(sql teller "SELECT moved.idem_claim('k')" "SELECT moved.idem_claim('new')")" = $'f\nt' ]
    sql shop "INSERT INTO item VALUES (1, 'a')"
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
}

# As docs/portable.md has it. One transaction leaves no moment at which a stranger could give the old name to another schema.
@test "the schema is renamed in the transaction that runs the file again, and nothing calls a stranger's schema of the old name" {
    sql postgres 'GRANT CREATE ON DATABASE '"$PGDATABASE"' TO teller'
    install
    sql shop "SELECT idem.idem_grant('teller', operator => true)" 'CREATE TABLE item (id int PRIMARY KEY, s text)' 'GRANT ALL ON item TO teller' \
        "SELECT idem.idem_machine_define('m', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"], \"b\": []}}')" "SELECT idem.idem_machine_attach('item', 's', 'm'), idem.optimistic_enable('item')"
    use() {
        printf '%s;\n' "SELECT $1.idem_claim('k') IS NULL, $1.idem_lock('l') IS NULL, $1.idem_hit('h') IS NULL, $1.idem_http_key('\"x\"') IS NULL, $1.idem_fingerprint('{}') IS NULL" \
            "SELECT outcome IS NULL FROM $1.idem_transition('item', '{\"id\": 1}', NULL, 'b')" "SELECT outcome IS NULL FROM $1.idem_execute('e', 'SELECT 1 AS one')" \
            "SELECT count(*) IS NULL FROM $1.unique_insert('item', '{\"id\": 2, \"s\": \"a\"}')" "SELECT $1.idem_machine_define('n', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"]}}')" "CALL $1.idem_sweep()"
    }
    psql -XAtq -U teller -f <(use idem; echo "\\! touch $BATS_TEST_TMPDIR/used; until [ -e $BATS_TEST_TMPDIR/trapped ]; do sleep 0.05; done"; use moved) >"$BATS_TEST_TMPDIR/answers" 2>&1 3>&- &
    local session=$!
    until [ -e "$BATS_TEST_TMPDIR/used" ]; do sleep 0.05; done
    # A call that has begun before, and waits.
    psql -XAtq -U teller -c "BEGIN; SELECT idem.idem_claim('held')" -c "\\! until [ -e $BATS_TEST_TMPDIR/renamed ]; do sleep 0.05; done" -c ROLLBACK >/dev/null 3>&- &
    local holder=$!
    until [ "$(sql postgres "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")" -gt 0 ]; do sleep 0.05; done
    psql -XAtq -U teller -c "SELECT idem.idem_claim('held')" >"$BATS_TEST_TMPDIR/waited" 2>&1 3>&- &
    local waiting=$!
    until [ "$(sql postgres "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")" = 1 ]; do sleep 0.05; done
    run psql -XAtq -U shop --set=ON_ERROR_STOP=1 -1 -c 'ALTER SCHEMA idem RENAME TO moved' -c "SET LOCAL idem.schema = 'moved'" -f "$root/build/idem--portable.sql"
    [ "$status" = 0 ] && [[ $output == *'schema "idem" was made, so that nobody else has the old name'* ]]
    run sql teller 'CREATE SCHEMA idem'
    [[ $output == *'already exists'* ]]
    run sql teller 'CREATE VIEW idem.idem_keys AS SELECT 1'
    [[ $output == *'permission denied for schema idem'* ]]
    touch "$BATS_TEST_TMPDIR/renamed"
    wait "$holder" "$waiting" || true
    cat "$BATS_TEST_TMPDIR/waited"
    sql shop 'DROP SCHEMA idem'
    make_trap
    touch "$BATS_TEST_TMPDIR/trapped"
    wait "$session"
    sql shop "SELECT moved.idem_revoke('teller'), moved.idem_grant('teller')" "SELECT count(*) FROM moved.idem_health()" >/dev/null
    [ "$(sql postgres 'SELECT is_called FROM idem.stolen')" = f ]
    cat "$BATS_TEST_TMPDIR/answers"
    [ "$(grep -c 'ERROR\|trapped' "$BATS_TEST_TMPDIR/answers")" = 0 ]
}

@test "a caller's names in pg_temp do not run with the owner's rights" {
    install
    sql shop "SELECT idem.idem_grant('teller')"
    run sql teller "CREATE TEMP TABLE ran (by name)" \
        "CREATE FUNCTION pg_temp.spring(text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO pg_temp.ran VALUES (current_user); RETURN true; END'" \
        "CREATE DOMAIN pg_temp.idem_outcome AS text CHECK (pg_temp.spring(VALUE))" "CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.spring(VALUE))" \
        "CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (pg_temp.spring(VALUE::pg_catalog.text))" "SET search_path = pg_temp, idem, pg_catalog" \
        "SELECT idem.idem_begin('k', lease => '1 hour')" "SELECT idem.idem_execute('e', 'SELECT 1 AS one')" "SELECT idem.idem_lock('l')" "SELECT idem.idem_publish('t', '{}')" \
        "SELECT count(*) FROM pg_temp.ran WHERE by = 'shop'"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = 0 ]
}

# move FROM TO: the data of one installation into the other, as docs/portable.md has it.
move() {
    local table
    for table in keys tokens locks counters rates scopes machines transition_log outbox outbox_leases outbox_parked; do
        PGDATABASE=$1 psql -XAtq -c "COPY (SELECT * FROM idem.idem_$table) TO STDOUT" | PGDATABASE=$2 psql -XAtq --set=ON_ERROR_STOP=1 -c "COPY idem.idem_$table FROM STDIN"
    done
}

# In a database with either edition.
live() {
    sql postgres 'SET search_path = public, idem' 'CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL)' \
        "SELECT idem_claim('claimed')" "SELECT idem_complete('answered', '{\"a\": 1}', 201) FROM idem_begin('answered')" \
        "SELECT idem_scope_set('short', ttl => '1 hour')" "SELECT idem_claim('in a scope', scope => 'short')" \
        "SELECT idem_machine_define('order', '{\"initial\": [\"new\"], \"transitions\": {\"new\": [\"paid\"], \"paid\": []}}')" \
        "SELECT idem_publish('mail', '{\"to\": 1}')" "SELECT idem_hit('counted')" >/dev/null
    fence=$(sql postgres "SELECT fence FROM idem.idem_begin('leased', lease => '1 hour')")
    lock=$(sql postgres "SELECT idem.idem_lock('locked', '1 hour')")
}

# What live() left is there, and goes on.
goes_on() {
    [ "$(sql postgres "SELECT idem.idem_claim('claimed')")" = f ]
    [ "$(sql postgres "SELECT outcome, status_code, response FROM idem.idem_begin('answered')")" = 'completed|201|{"a": 1}' ]
    [ "$(sql postgres "SELECT idem.idem_claim('in a scope', scope => 'short')")" = f ]
    [ "$(sql postgres "SELECT outcome FROM idem.idem_begin('leased', lease => '1 hour')")" = in_flight ]
    [ "$(sql postgres "SELECT idem.idem_complete('leased', '2', fence => $fence)")" = t ]
    [ -z "$(sql postgres "SELECT idem.idem_lock('locked', '1 hour')")" ]
    [ "$(sql postgres "SELECT idem.idem_unlock('locked', $lock)")" = t ]
    [ "$(sql postgres "SELECT idem.idem_lock('locked', '1 hour') > $lock")" = t ]
    [ "$(sql postgres "SELECT hits FROM idem.idem_hits('counted')")" = 1 ]
    [ "$(sql postgres "SELECT payload FROM idem.idem_outbox_take('mail')")" = '{"to": 1}' ]
    sql postgres 'CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, status text NOT NULL)' "SELECT idem.idem_machine_attach('orders', 'status', 'order')" \
        "INSERT INTO orders VALUES (1, 'new')"
    run sql postgres "INSERT INTO orders VALUES (2, 'paid')"
    [[ $output == *'paid'* ]] && [ "$status" -ne 0 ]
}

# Those without a search_path of their own would find a caller's types; the owner's functions call them.
@test "helpers in PL/pgSQL have a search_path, or nobody but the owner may call them" {
    install
    sql shop "SELECT idem.idem_grant('teller', operator => true)"
    [ "$(sql teller "SELECT has_function_privilege('idem._idem_claim(text,text,text,bytea,text,interval,interval,boolean,boolean,timestamptz)', 'EXECUTE')")" = f ]
    # The row flows run the caller's statements with the caller's search_path. All their names are qualified.
    [ "$(sql teller "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc JOIN pg_language l ON l.oid = prolang
                      WHERE pronamespace = 'idem'::regnamespace AND lanname = 'plpgsql' AND proconfig IS NULL AND proname LIKE '\_%'
                        AND has_function_privilege(pg_proc.oid, 'EXECUTE')")" = '_idem_execute_check_names _idem_execute_prepare _idem_execute_run _idem_row_change _idem_row_lock _idem_row_run' ]
}

@test "data move from the portable edition to the C edition" {
    has_c_edition
    install
    live
    PGDATABASE=postgres psql -Xqc "CREATE DATABASE other_$BATS_TEST_NUMBER TEMPLATE template0"
    PGDATABASE=other_$BATS_TEST_NUMBER psql -Xqc 'CREATE SCHEMA idem' -c 'CREATE EXTENSION idem SCHEMA idem'
    move "$PGDATABASE" "other_$BATS_TEST_NUMBER"
    PGDATABASE=other_$BATS_TEST_NUMBER
    goes_on
}

@test "data move from the C edition to the portable edition" {
    has_c_edition
    psql -Xqc 'CREATE SCHEMA idem' -c 'CREATE EXTENSION idem SCHEMA idem'
    live
    PGDATABASE=postgres psql -Xqc "CREATE DATABASE other_$BATS_TEST_NUMBER OWNER shop TEMPLATE template0"
    PGDATABASE=other_$BATS_TEST_NUMBER install
    move "$PGDATABASE" "other_$BATS_TEST_NUMBER"
    PGDATABASE=other_$BATS_TEST_NUMBER
    goes_on
}

@test "pg_tle installs it as an extension" {
    [ "$(sql postgres "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_tle'")" = 1 ] || skip 'pg_tle is not installed'
    [[ $(sql postgres 'SHOW shared_preload_libraries') == *pg_tle* ]] || skip 'pg_tle is not in shared_preload_libraries'
    psql -Xqc 'CREATE EXTENSION pg_tle' -c 'GRANT pgtle_admin TO shop'
    # Where the C edition is installed as well, its name is taken.
    sed "s/install_extension('idem'/install_extension('idem_tle'/" "$root/build/idem--portable-tle.sql" | psql -XAtq -U shop
    sql shop 'CREATE SCHEMA idem' 'CREATE EXTENSION idem_tle SCHEMA idem'
    [ "$(sql shop "SELECT idem.idem_claim('k')" "SELECT idem.idem_claim('k')")" = $'t\nf' ]
    sql shop 'DROP EXTENSION idem_tle'
    [ "$(objects idem)" = 0 ]
}

has_c_edition() {
    [ "$(sql postgres "SELECT count(*) FROM pg_available_extensions WHERE name = 'idem'")" = 1 ] || skip 'the C edition is not installed'
}
