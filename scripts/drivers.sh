#!/usr/bin/env bash
# The calls of tests/drivers/calls.json, from each driver, directly and through pgbouncer, on a private cluster that listens on loopback; it is
# gone afterwards. Prints TAP.
#
#   drivers.sh [DRIVER ...]    every driver, or these
#
# A driver whose packages cannot be installed is skipped: one line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

all=(node-postgres postgres.js psycopg2 psycopg3 asyncpg JDBC pgx lib/pq PDO)
declare -A debian_packages=(
    [psycopg2]="python3 python3-psycopg2"
    [psycopg3]="python3 python3-psycopg"
    [asyncpg]="python3 python3-asyncpg"
    [JDBC]="libpostgresql-jdbc-java libgoogle-gson-java"
    [pgx]="golang-go golang-github-jackc-pgx-v4-dev"
    [lib/pq]="golang-go golang-github-lib-pq-dev"
    [PDO]="php-cli php-pgsql"
)

cluster=drivers-$$
kept=$PWD/build/drivers
child=

# shellcheck disable=SC2317 # called by at_exit
finish() {
    end_group KILL "$child"
    cp "${sockets:-}/server.log" "${sockets:-}/pooler/log" "$kept" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster" || true
}
at_exit finish

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# install DRIVER: sets `command`, and `recipe`, the program with the recipe of docs/drivers.md. 69: its packages cannot be had here.
install() {
    if [[ -v debian_packages[$1] ]]; then
        # shellcheck disable=SC2086 # words
        scripts/deps.sh ${debian_packages[$1]} || return 69
    else
        { command -v node && command -v npm; } >/dev/null || scripts/deps.sh nodejs npm || return 69
        npm_ci drivers || return
    fi
    case $1 in
        node-postgres | postgres.js)
            command=(node "$copy/${1%.js}.js")
            insert_recipe "$1" "${1%.js}.js" "$copy/recipe-${1%.js}.js" && recipe=(node "$copy/recipe-${1%.js}.js")
            ;;
        psycopg2 | psycopg3 | asyncpg)
            command=(/usr/bin/python3 "tests/drivers/$1_driver.py")
            insert_recipe "$1" "$1.py" "$kept/recipe-$1.py" && recipe=(/usr/bin/python3 "$kept/recipe-$1.py")
            ;;
        JDBC)
            { command -v java && command -v javac; } >/dev/null || scripts/deps.sh default-jdk-headless || return 69
            insert_recipe "$1" JDBC.java "$kept/Recipe.java" &&
                javac -cp "$classes" -d "$kept" tests/drivers/Jdbc.java "$kept/Recipe.java" || return
            command=(java -cp "$classes:$kept" Jdbc)
            recipe=(java -cp "$classes:$kept" Recipe)
            ;;
        pgx | lib/pq)
            insert_recipe "$1" "${1#lib/}.go" "$kept/recipe-${1#lib/}.go" &&
                compile_go "${1#lib/}" tests/drivers/runner.go "tests/drivers/${1#lib/}.go" &&
                compile_go "recipe-${1#lib/}" "$kept/recipe-${1#lib/}.go" || return
            command=("$kept/${1#lib/}")
            recipe=("$kept/recipe-${1#lib/}")
            ;;
        PDO)
            command=(php tests/drivers/pdo.php)
            insert_recipe "$1" PDO.php "$kept/recipe-PDO.php" && recipe=(php "$kept/recipe-PDO.php")
            ;;
    esac
}

# insert_recipe DRIVER TEMPLATE PROGRAM
insert_recipe() { /usr/bin/python3 tests/drivers/recipes/insert.py "$1" "tests/drivers/recipes/$2" >"$3"; }

classes=/usr/share/java/gson.jar:/usr/share/java/postgresql.jar

# compile_go NAME FILE ...: with Debian's libraries, and none from elsewhere.
compile_go() { GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$kept/go-cache go build -o "$kept/$1" "${@:2}"; }

# make_database NAME: a copy of drivers_template.
make_database() { sql postgres "CREATE DATABASE \"$1\" TEMPLATE drivers_template OWNER shop"; }

# sql DATABASE STATEMENT: as the superuser.
sql() { PGHOST=$sockets PGPORT=$direct_port PGUSER=postgres PGDATABASE=$1 "$bindir/psql" -XAtq --set=ON_ERROR_STOP=1 --command="$2"; }

# run NAME COMMAND ...: what hangs is to fail.
run() {
    export PGDATABASE=$1
    shift
    make_database "$PGDATABASE" || return
    set -m
    timeout --kill-after=10 120 /usr/bin/python3 tests/drivers/check.py "$driver" "$@" </dev/null &
    child=$!
    set +m
    wait "$child" || failed=1
    child=
}

# Of every function of an application there is a call.
check_functions() {
    local name missing=()
    for name in $(sql drivers_template "SELECT DISTINCT proname FROM pg_proc JOIN idem.idem_members() ON oid = objid
                                        WHERE kind = 'ROUTINE' AND audience IN ('application', 'public') AND prorettype <> 'trigger'::regtype"); do
        grep --quiet "idem\.$name(" tests/drivers/calls.json || missing+=("$name")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo 'ok 1 - every function of applications is called'
    else
        echo "not ok 1 - every function of applications is called; tests/drivers/calls.json lacks ${missing[*]}"
        failed=1
    fi
}

# What no driver gets through a pooler.
check_listen() {
    scripts/deps.sh python3-psycopg2 >>"$kept/build.log" 2>&1 || { echo 'ok 1 - LISTEN # SKIP its packages cannot be installed here'; return; }
    make_database listen || return
    PGDATABASE=listen timeout --kill-after=10 60 /usr/bin/python3 tests/drivers/listen.py "$direct_port" "$pooled_port" </dev/null || failed=1
}

# check_recipe COMMAND ...: a payment, its duplicate, one that fails, and its retry. In the database of the calls.
check_recipe() {
    local log="$kept/$name-recipe.log" verdict=ok
    {
        "$@" a 1 && "$@" a 2 && ! "$@" b 1 && "$@" b 3 && [ "$(sql "$name" 'SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM payments')" = 1,3 ]
    } >"$log" 2>&1 </dev/null || verdict='not ok' failed=1
    echo "$verdict 1 - $driver: the recipe of docs/drivers.md runs a payment once, and its retry after an error"
    if [ "$verdict" != ok ]; then sed 's/^/  # /' "$log"; fi
}

drivers=("${@:-${all[@]}}")
for driver in "${drivers[@]}"; do
    [[ " ${all[*]} " == *" $driver "* ]] || usage
done

mkdir -p "$kept"
if ! { scripts/deps.sh python3 && scripts/install.sh; } >"$kept/build.log" 2>&1; then
    tail -n 40 "$kept/build.log" >&2
    exit 1
fi
bindir=$("$PG_CONFIG" --bindir)
direct_port=$(free_port)
scripts/cluster.sh start "$cluster" listen_addresses=127.0.0.1 port="$direct_port" fsync=off statement_timeout=10s
eval "$(scripts/cluster.sh env "$cluster")"
sockets=$PGHOST
pooled_port=$(free_port)
scripts/pooler.sh start "$cluster" listen_addr=127.0.0.1 listen_port="$pooled_port" server_round_robin=1
"$bindir/psql" -Xq --output=/dev/null --set=ON_ERROR_STOP=1 --file=tests/drivers/database.sql
export PYTHONDONTWRITEBYTECODE=1 PGHOST=127.0.0.1 PGUSER=shop PGPASSWORD=shop PGSSLMODE=disable

failed=0
for driver in "${drivers[@]}"; do
    status=0
    install "$driver" >"$kept/${driver//\//-}-install.log" 2>&1 || status=$?
    case $status in
        0) ;;
        69) echo "ok 1 - $driver # SKIP its packages cannot be installed here"; continue ;;
        *) tail -n 40 "$kept/${driver//\//-}-install.log" >&2; failed=1; continue ;;
    esac
    name=${driver//[^A-Za-z0-9]/_}
    PGPORT=$direct_port run "$name" "${command[@]}"
    PGDATABASE=$name PGPORT=$direct_port check_recipe "${recipe[@]}"
    PGPORT=$pooled_port IDEM_POOLED=1 run "${name}_pooled" "${command[@]}"
done
if [ $# -eq 0 ]; then
    check_functions
    check_listen
fi
exit "$failed"
