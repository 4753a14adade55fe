# The script of the portable edition is one statement: whatever sends it to a server installs it, as a whole, and again.

load common

setup_file() {
    build_portable
    psql -Xqc 'CREATE ROLE shop LOGIN'
}

teardown_file() { psql -Xqc 'DROP ROLE shop'; }

setup() {
    cd "$root"
    source scripts/lib.sh
    script=build/idem--portable.sql
    PGDATABASE=postgres psql -Xqc "CREATE DATABASE driver_$BATS_TEST_NUMBER OWNER shop TEMPLATE template0"
    export PGDATABASE=driver_$BATS_TEST_NUMBER PGUSER=shop
}

teardown() { PGDATABASE=postgres PGUSER=postgres psql -Xqc "DROP DATABASE IF EXISTS driver_$BATS_TEST_NUMBER WITH (FORCE)"; }

node_packages() {
    local status=0
    { command -v node && command -v npm; } >/dev/null || skip 'there is no Node.js'
    npm_ci portable/drivers >"$BATS_TEST_TMPDIR/npm.log" || status=$?
    [ "$status" -ne 69 ] || skip 'the npm registry cannot be reached'
    [ "$status" -eq 0 ]
    cp tests/portable/drivers/install.mjs "$copy"
}

# Which privileges are there, and whose objects.
is_the_owners() {
    [ "$(psql -XAtqc "SELECT string_agg(DISTINCT proowner::regrole::text, ' ') FROM pg_proc WHERE pronamespace = 'idem'::regnamespace")" = shop ]
    [ "$(psql -XAtqc "SELECT count(*) FROM idem.idem_health() WHERE level <> 'ok'")" = 0 ]
}

@test "psql" {
    [ "$(psql -XAt -f "$script" -f "$script")" = $'DO\nDO' ]
    is_the_owners
}

@test "node-postgres" {
    node_packages
    [ "$(node "$copy/install.mjs" node-postgres "$script" "$script")" = 'true false' ]
    is_the_owners
}

@test "psycopg" {
    /usr/bin/python3 -c 'import psycopg' 2>/dev/null || skip 'there is no psycopg'
    [ "$(/usr/bin/python3 tests/portable/drivers/install.py "$script" "$script")" = 'True False' ]
    is_the_owners
}

@test "JDBC" {
    command -v javac >/dev/null && [ -f /usr/share/java/postgresql.jar ] || skip 'there is no JDBC'
    javac -d "$BATS_TEST_TMPDIR" tests/portable/drivers/Install.java
    exec {forwarder}< <(exec /usr/bin/python3 tests/portable/drivers/forward.py 3>&-)
    read -r -u "$forwarder" port
    [ "$(java -cp "$BATS_TEST_TMPDIR:/usr/share/java/postgresql.jar" Install "jdbc:postgresql://127.0.0.1:$port/$PGDATABASE?user=shop" "$script" "$script")" = 'true false' ]
    exec {forwarder}<&-
    is_the_owners
}

@test "PGlite, one exec" {
    node_packages
    [ "$(node "$copy/install.mjs" pglite "$script" "$script")" = 'true false' ]
}
