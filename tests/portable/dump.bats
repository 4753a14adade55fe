# Dumps of the portable edition, which is in no extension: they restore strictly, in one transaction, and pg_upgrade takes the edition along. On the cluster
# of the environment; servers that pg_upgrade works on are inside of its directory, and go with it.

load common

setup_file() {
    build_portable
    export dump=$BATS_FILE_TMPDIR/dump
    roles
    createdb --template=template0 --owner=shop dump_source
    fill dump_source
    for format in plain custom directory; do pg_dump --format=$format --file="$dump.$format" dump_source; done
    pg_dump --username=shop --schema=idem --file="$dump.schema" dump_source
}

teardown_file() {
    dropdb --if-exists --force dump_source
    psql -Xqc 'DROP ROLE shop' -c 'DROP ROLE teller'
}

setup() { export PGDATABASE=dump_$BATS_TEST_NUMBER; }

teardown() { PGDATABASE=postgres dropdb --if-exists --force "dump_$BATS_TEST_NUMBER"; }

roles() { psql -Xqc 'CREATE ROLE shop LOGIN' -c 'CREATE ROLE teller LOGIN'; }

install() { psql -XAtq -U shop --file="$root/build/idem--portable.sql"; }

# fill DATABASE: something of everything: keys of all states, a lock, a scope with its owner, a message, guards of versions and of states.
fill() {
    local PGDATABASE=$1
    install
    sql shop 'CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, stock int DEFAULT 1)' 'GRANT ALL ON orders TO teller' \
        "SELECT idem.idem_grant('teller')" "SELECT idem.idem_scope_set('tenant', ttl => '1 hour', owner => 'teller')" \
        "SELECT idem.idem_claim('claimed')" "SELECT idem.idem_complete('answered', '{\"a\": 1}', 201) FROM idem.idem_begin('answered')" \
        "SELECT idem.idem_begin('leased', lease => '1 hour')" "SELECT idem.idem_lock('locked', '1 hour')" "SELECT idem.idem_hit('counted')" \
        "SELECT idem.idem_machine_define('order', '{\"initial\": [\"new\"], \"transitions\": {\"new\": [\"paid\"], \"paid\": [\"shipped\"]}}')" \
        "SELECT idem.idem_machine_attach('orders', 'status', 'order', true)" "SELECT idem.optimistic_enable('orders')" \
        "INSERT INTO orders VALUES (1, 'new')" "UPDATE orders SET status = 'paid'" \
        "SELECT idem.idem_publish('mail', '{\"to\": 1}')" "SELECT idem.idem_next_id()" 'CALL idem.idem_sweep()' >/dev/null
    sql teller "SELECT idem.idem_claim('claimed', scope => 'tenant')" >/dev/null
}

# What was filled is in the database, and goes on. With an argument: of the schema alone.
goes_on() {
    [ -z "$(sql shop "SELECT check_name || ': ' || detail FROM idem.idem_health() WHERE level <> 'ok'")" ]
    [ "$(sql teller "SELECT idem.idem_claim('claimed'), idem.idem_claim('claimed', scope => 'tenant'), idem.idem_claim('new'), idem.idem_claim('new')")" = 'f|f|t|f' ]
    [ "$(sql teller "SELECT outcome, status_code, response FROM idem.idem_begin('answered')")" = 'completed|201|{"a": 1}' ]
    [ "$(sql teller "SELECT outcome FROM idem.idem_begin('leased', lease => '1 hour')")" = in_flight ]
    [ -z "$(sql teller "SELECT idem.idem_lock('locked', '1 hour')")" ]
    [ "$(sql teller "SELECT idem.idem_hit('counted')")" = 2 ]
    [ "$(sql teller "SELECT payload FROM idem.idem_outbox_take('mail')")" = '{"to": 1}' ]
    refuses 42501 shop "SET ROLE teller; SELECT idem.idem_forget('claimed')"
    [ $# -eq 0 ] || return 0
    [ "$(sql shop 'SELECT kind, is_enabled, is_valid FROM idem.idem_guards ORDER BY kind')" = $'state|t|t\nversion|t|t' ]
    refuses ID003 teller "UPDATE orders SET status = 'new'"
    refuses ID003 teller "INSERT INTO orders VALUES (2, 'shipped')"
    refuses ID004 teller 'UPDATE orders SET version = 7'
    [ "$(sql teller "UPDATE orders SET status = 'shipped' RETURNING version")" = 3 ]
    [ "$(sql shop 'SELECT from_state, to_state FROM idem.idem_transition_log ORDER BY at')" = $'|new\nnew|paid\npaid|shipped' ]
}

# refuses SQLSTATE ROLE STATEMENT
refuses() {
    run psql -XAtq -U "$2" --set=VERBOSITY=sqlstate -c "$3"
    [ "$status" -ne 0 ] && [[ $output == *"$1"* ]] || { echo "$3: $output" && false; }
}

# dumped DATABASE: as text that two dumps of the same have in common.
dumped() { pg_dump "$1" | sed '/^\\\(un\)\?restrict /d'; }

# How many of idem's own the functions know by OIDs of another database.
strangers() {
    sql shop "SELECT count(*) FROM pg_proc, regexp_matches(prosrc, '''(idem\\.[a-z_]+)''::regtype = ''(\\d+)''::oid', 'g') AS m WHERE pronamespace = 'idem'::regnamespace AND m[1]::regtype::oid <> m[2]::oid"
}

# Nothing was lost, the file run again changes nothing but these OIDs, and all goes on.
is_whole() {
    dumped "$PGDATABASE" >"$BATS_TEST_TMPDIR/restored"
    diff <(dumped dump_source) "$BATS_TEST_TMPDIR/restored"
    [ "$(strangers)" -gt 0 ]
    [ "$(sql teller BEGIN "SELECT idem.idem_claim('restored'), idem.idem_claim('restored'), idem.idem_complete('restored', '{}'), outcome FROM idem.idem_begin('b')" ROLLBACK)" = 't|f|t|acquired' ]
    install
    [ "$(strangers)" = 0 ]
    diff <(sed "s/'[0-9]*'::oid//g" "$BATS_TEST_TMPDIR/restored") <(dumped "$PGDATABASE" | sed "s/'[0-9]*'::oid//g")
    goes_on
}

@test "a plain dump restores in one transaction" {
    createdb --template=template0 --owner=shop "$PGDATABASE"
    psql -Xq --set=ON_ERROR_STOP=1 --single-transaction --output=/dev/null --file="$dump.plain"
    is_whole
}

@test "an archive restores in one transaction" {
    createdb --template=template0 --owner=shop "$PGDATABASE"
    pg_restore --single-transaction --dbname="$PGDATABASE" "$dump.custom"
    is_whole
}

@test "a directory restores in parallel, and no error is passed over" {
    createdb --template=template0 --owner=shop "$PGDATABASE"
    pg_restore --exit-on-error --jobs=2 --dbname="$PGDATABASE" "$dump.directory"
    is_whole
}

@test "the owner of a database restores an archive" {
    createdb --template=template0 --owner=shop "$PGDATABASE"
    sql postgres 'ALTER SCHEMA public OWNER TO shop'
    pg_restore --username=shop --single-transaction --dbname="$PGDATABASE" "$dump.custom"
    goes_on
}

@test "a dump of the schema alone restores in one transaction" {
    createdb --template=template0 --owner=shop "$PGDATABASE"
    psql -Xq --username=shop --set=ON_ERROR_STOP=1 --single-transaction --output=/dev/null --file="$dump.schema"
    install
    diff <(sed "/^\\\\\(un\)\?restrict /d; s/'[0-9]*'::oid//g" "$dump.schema") <(pg_dump --schema=idem "$PGDATABASE" | sed "/^\\\\\(un\)\?restrict /d; s/'[0-9]*'::oid//g")
    goes_on 'the schema alone'
}

# on_server BINDIR NAME COMMAND ...: a server of these programs, in the directory of this name.
on_server() (
    source "$root/scripts/lib.sh"
    from=$1 data=$server/$2
    shift 2
    as_server "$from/pg_ctl" start --silent --wait --pgdata="$data" --log="$data/log" --options="-c listen_addresses= -c unix_socket_directories=$server -c fsync=off"
    # shellcheck disable=SC2064 # now
    trap "as_server '$from/pg_ctl' stop --silent --pgdata='$data'" EXIT
    PGHOST=$server "$@"
)

# upgraded_from BINDIR: from the server of these programs to this machine's.
upgraded_from() {
    source "$root/scripts/lib.sh"
    local server=$PGHOST/upgrade
    rm -rf "$server"
    mkdir "$server"
    if is_root; then chown postgres: "$server"; fi
    local PGDATABASE=dump_source
    for name in old new; do
        local from=$bindir
        [ $name = new ] || from=$1
        as_server "$from/initdb" --pgdata="$server/$name" --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --data-checksums --no-sync >/dev/null
    done
    on_server "$1" old make_source
    (cd "$server" && as_server "$bindir/pg_upgrade" --old-bindir "$1" --new-bindir "$bindir" --old-datadir old --new-datadir new --username postgres --socketdir "$server")
    on_server "$bindir" new goes_on
}

make_source() {
    PGDATABASE=postgres roles
    createdb --template=template0 --owner=shop --maintenance-db=postgres dump_source
    fill dump_source
}

major() { "$1/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'; }

@test "pg_upgrade takes it along, from each older server of this machine and from this one" {
    local here from
    here=$(major "$bindir")
    for from in $(printf '%s\n' /usr/lib/postgresql/*/bin "$bindir" | sort --unique); do
        if [ -x "$from/postgres" ] && [ "$(major "$from")" -le "$here" ]; then upgraded_from "$from"; fi
    done
}
