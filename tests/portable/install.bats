# Installing the portable edition and taking it away, and moving data between the editions. On the cluster of the environment; each test has databases of its own.

setup_file() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    export root
    bindir=$("${PG_CONFIG:-pg_config}" --bindir)
    export PATH=$bindir:$PATH PGOPTIONS='-c client_min_messages=warning'
    make --silent --directory="$root" portable
    psql -Xqc 'CREATE ROLE shop LOGIN' -c 'CREATE ROLE teller LOGIN'
}

teardown_file() { psql -Xqc 'DROP ROLE shop' -c 'DROP ROLE teller'; }

setup() {
    export PGDATABASE=install_$BATS_TEST_NUMBER
    PGDATABASE=postgres psql -Xqc "CREATE DATABASE install_$BATS_TEST_NUMBER OWNER shop TEMPLATE template0"
}

teardown() { PGDATABASE=postgres psql -Xqc "DROP DATABASE IF EXISTS install_$BATS_TEST_NUMBER WITH (FORCE)" -c "DROP DATABASE IF EXISTS other_$BATS_TEST_NUMBER WITH (FORCE)"; }

# sql ROLE STATEMENT ...
sql() {
    local role=$1 statements=() statement
    shift
    for statement in "$@"; do statements+=(-c "$statement"); done
    psql -XAtq -U "$role" --set=ON_ERROR_STOP=1 "${statements[@]}"
}

install() { psql -XAtq -U shop --set=schema="${1:-idem}" --file="$root/build/idem--portable.sql"; }

uninstall() { psql -XAtq -U shop --set=schema="${1:-idem}" --file="$root/build/idem--portable-uninstall.sql"; }

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

@test "it is not taken away while a guard hangs on a table" {
    install
    sql shop 'CREATE TABLE item (id int PRIMARY KEY)' "SELECT idem.optimistic_enable('item')"
    run uninstall
    [ "$status" -ne 0 ]
    [[ $output == *'other objects depend on it'* ]]
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = t ]
    sql shop "SELECT idem.optimistic_disable('item')"
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
    run bash -c 'head -n 3000 "$root/build/idem--portable.sql" | psql -XAtq -U shop --set=schema=idem'
    [ -z "$(sql shop "SELECT to_regnamespace('idem')")" ]
    install
    [ "$(sql shop "SELECT idem.idem_claim('k')")" = t ]
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
                        AND has_function_privilege(pg_proc.oid, 'EXECUTE')")" = '_idem_execute_prepare _idem_execute_run _idem_row_change _idem_row_lock _idem_row_run' ]
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
