#!/usr/bin/env bash
# The portable edition on a Citus cluster: a coordinator and three workers, private and gone afterwards. Prints TAP.
#
#   citus.sh                    the tests; without CITUS one line says that they are skipped
#   citus.sh own [GROUP ...]    the tests of tests/citus alone, all groups of cluster.py or these
#   citus.sh figures [CALLS]    what a call costs on one to three workers, and on one node without Citus: the table of docs/citus.md (2000)
#   citus.sh start NAME         a cluster that stays: NAME-0 is the coordinator, NAME-1 to NAME-3 the workers (cluster.sh stops them, one by one)
#
# CITUS names a source tree of Citus, for the server of PG_CONFIG (13.2 for PostgreSQL 15 to 17). It is built once, below build/citus, and
# installed into a directory of its own, where the server's own files are linked.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

build=$PWD/build/citus
nodes=(0 1 2 3)
name=citus-$$ home=
bindir=$("$PG_CONFIG" --bindir)

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

# --- Building ------------------------------------------------------------------------------------------------------------

# Citus 13.2 defines a function for servers before 16 that minor releases of 15 have since: its own gets another name.
rename_what_the_server_has() {
    local header=src/include/pg_version_compat.h
    if grep --quiet '^have_createdb_privilege(void)' $header &&
        grep --quiet 'have_createdb_privilege' "$("$PG_CONFIG" --includedir-server)/commands/dbcommands.h"; then
        sed -i '/^#define have_createdb_privilege/d' $header
        grep --recursive --files-with-matches have_createdb_privilege src | xargs sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/g'
    fi
}

compile() {
    scripts/deps.sh flex bison autoconf libkrb5-dev liblz4-dev libpam0g-dev libselinux1-dev libxml2-dev libxslt1-dev libzstd-dev libssl-dev libreadline-dev
    rm -rf "$build/source" "$build/root"
    mkdir -p "$build/source"
    tar --create --directory="$CITUS" --exclude=.git . | tar --extract --directory="$build/source"
    (
        cd "$build/source"
        rename_what_the_server_has
        ./configure --without-libcurl PG_CONFIG="$(command -v "$PG_CONFIG")"
        make --jobs="$(nproc)" with_llvm=no extension
        make with_llvm=no install-extension DESTDIR="$build/root"
    )
    "$PG_CONFIG" --version >"$build/built"
}

# A server finds its files relative to its program: a copy of the programs, with links to the server's own files and Citus's beside them.
# Directly below /tmp: the server's user has to read it.
install() {
    local directory file
    home=$(mktemp -d /tmp/idem-citus.XXXXXX)
    mkdir -p "$home$(dirname "$bindir")"
    cp -R "$bindir" "$home$(dirname "$bindir")"
    for directory in "$("$PG_CONFIG" --pkglibdir)" "$("$PG_CONFIG" --sharedir)" "$("$PG_CONFIG" --sharedir)/extension"; do
        mkdir -p "$home$directory"
        for file in "$directory"/*; do
            if [ ! -e "$home$directory/${file##*/}" ] && [ "${file##*/}" != extension ]; then ln -s "$file" "$home$directory"; fi
        done
    done
    cp -R "$build/root/." "$home"
    cp "$("$PG_CONFIG" --bindir)/pg_config" "$home$bindir"
    chmod -R a+rX "$home"
    PG_CONFIG=$home$bindir/pg_config
}

# --- The cluster ---------------------------------------------------------------------------------------------------------

# Whatever way out is taken, nothing that was started stays.
finish() {
    local node
    for node in "${nodes[@]}"; do
        cp "/tmp/idem-$(id -u)/$name-$node/server.log" "$build/server-$node.log" 2>/dev/null || true
        scripts/cluster.sh stop "$name-$node" || true
    done
    if [ -n "$home" ]; then rm -rf "$home"; fi
}

socket() { echo "/tmp/idem-$(id -u)/$name-$1"; }

psql_on() { "$bindir/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --host="$(socket "$1")" --port=5432 --username=postgres --output=/dev/null "${@:2}"; }

# The nodes reach each other by their sockets.
start() {
    local node
    for node in "${nodes[@]}"; do
        scripts/cluster.sh start "$name-$node" shared_preload_libraries=citus wal_level=logical max_prepared_transactions=200 \
            citus.recover_2pc_interval=1s max_worker_processes=16 max_wal_senders=20 max_replication_slots=20 shared_buffers=64MB fsync=off statement_timeout=5min \
            citus.local_hostname="$(socket "$node")" citus.node_conninfo=sslmode=prefer citus.max_client_connections=-1 >&2 || return
    done
}

# make_database NAME [WORKERS]: on every node, with Citus, the coordinator's knowing so many workers (all).
make_database() {
    local node
    for node in "${nodes[@]}"; do
        psql_on "$node" --dbname=postgres --command="DROP DATABASE IF EXISTS $1 WITH (FORCE)" --command="CREATE DATABASE $1" 2>/dev/null &&
            psql_on "$node" --dbname="$1" --command='CREATE EXTENSION citus' || return
    done
    psql_on 0 --dbname="$1" --command="SELECT citus_set_coordinator_host('$(socket 0)', 5432)"
    for node in "${nodes[@]:1:${2:-${#nodes[@]}}}"; do psql_on 0 --dbname="$1" --command="SELECT citus_add_node('$(socket "$node")', 5432)"; done
}

# install_idem_on NAME: the functions on the coordinator alone. Twice, as after an upgrade.
install_idem_on() {
    load_idem "$1" && psql_on 0 --dbname="$1" --command='SELECT idem.idem_citus_distribute(6)' && load_idem "$1"
}

load_idem() { PGOPTIONS='-c citus.enable_ddl_propagation=off' psql_on 0 --dbname="$1" --file=build/idem--portable.sql; }

# --- The tests -----------------------------------------------------------------------------------------------------------

# What a query asserts of a row that is on a worker is asserted there: the workers' pgTAP says how it ended, and no number.
make_pgtap_databases() {
    local node
    make_database pgtap && install_idem_on pgtap || return
    for node in "${nodes[@]}"; do
        psql_on "$node" --dbname=pgtap --command='SET citus.enable_ddl_propagation = off' --command='CREATE SCHEMA IF NOT EXISTS tap' \
            --command='CREATE EXTENSION IF NOT EXISTS pgtap SCHEMA tap' --command='ALTER DATABASE pgtap SET search_path = idem, tap, public' || return
        [ "$node" = 0 ] || psql_on "$node" --dbname=pgtap --file=tests/citus/worker.sql || return
    done
}

shared_tests() {
    make_pgtap_databases &&
        PGHOST=$(socket 0) PGPORT=5432 PGUSER=postgres PGDATABASE=pgtap IDEM_PSQL=$bindir/psql \
            pg_prove --psql-bin "$PWD/tests/citus/psql" --dbname pgtap --verbose \
            tests/pgtap/{keys,locks,tokens,rows,machines,http,scopes,requests,outbox,operations}/*.sql
}

# The judge of the chaos tests looks at what the clients of an attack saw.
build_judge() {
    { scripts/deps.sh python3-psycopg && cmake -S . -B build/cmake && cmake --build build/cmake --target idem-chaos-check --parallel "$(nproc)"; } >"$build/judge.log" 2>&1 ||
        { tail -n 40 "$build/judge.log" >&2; return 1; }
}

own_tests() {
    build_judge && make_database shop && install_idem_on shop &&
        PGHOST=$(socket 0) PGPORT=5432 PGUSER=postgres PGDATABASE=shop JUDGE=build/cmake/bin/idem-chaos-check HISTORIES=$build \
            /usr/bin/python3 -B tests/citus/cluster.py "$@"
}

# --- The figures ---------------------------------------------------------------------------------------------------------

figures() {
    local workers
    psql_on 0 --dbname=postgres --command='CREATE DATABASE alone' && load_idem alone || return
    for workers in 1 2 3; do make_database "on_$workers" "$workers" && install_idem_on "on_$workers" || return; done
    PGHOST=$(socket 0) PGPORT=5432 PGUSER=postgres \
        /usr/bin/python3 -B bench/citus.py "${1:-2000}" 'one node=alone' '1 worker=on_1' '2 workers=on_2' '3 workers=on_3'
}

mkdir -p "$build"
case ${1:-} in
    '' | own) ;;
    figures) [ $# -le 2 ] || usage ;;
    start) [ $# -eq 2 ] || usage; name=$2 ;;
    *) usage ;;
esac
if [ -z "${CITUS:-}" ]; then
    echo "ok 1 - Citus # SKIP CITUS names no source tree"
    exit
fi
[ -e "$CITUS/src/backend/distributed" ] || { echo "citus.sh: $CITUS is no source tree of Citus" >&2; exit 2; }
at_exit finish
if [ "$(cat "$build/built" 2>/dev/null)" != "$("$PG_CONFIG" --version)" ]; then
    compile >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
fi
install
make --silent portable
start
status=0
case ${1:-} in
    '')
        shared_tests || status=1
        own_tests || status=1
        ;;
    own) own_tests "${@:2}" || status=1 ;;
    figures) figures "${@:2}" || status=1 ;;
    start)
        trap - EXIT
        make_database idem && install_idem_on idem
        echo "export PGHOST=$(socket 0) PGPORT=5432 PGUSER=postgres PGDATABASE=idem"
        ;;
esac
exit "$status"
