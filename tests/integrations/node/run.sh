#!/usr/bin/env bash
# The tests of integrations/node, in databases of their own on the cluster of libpq's environment. Prints TAP.
#
#   run.sh [NAME ...]    core, databases, agents, and frameworks: express express4 express-postgres.js express-pooled express-portable
#                        fastify fastify4 koa hono nestjs nestjs-fastify; all of them without a name
#
# IDEM_REQUESTS: how many a server of Express gets in its storm, 1000 by default. IDEM_PORTABLE=1: all on the portable edition.
# IDEM_MCP: the SDKs and transports of MCP: v1-stdio v1-http v2-http by default; two or more also kill a process at each statement.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

names=("$@")
[ ${#names[@]} -gt 0 ] || names=(core databases agents express express4 express-postgres.js express-pooled express-portable fastify fastify4 koa hono nestjs nestjs-fastify)
tests=$PWD/tests/integrations/node
copy=$PWD/build/npm/integrations-node/integrations/node # as npm_ci has it
bindir=$("$PG_CONFIG" --bindir)
cluster=$(basename "$PGHOST")
made=() child='' pooler=''

# shellcheck disable=SC2317 # called by at_exit
finish() {
    end_group KILL "$child"
    if [ -n "$pooler" ]; then scripts/pooler.sh stop "$cluster" || true; fi
    local database
    for database in "${made[@]}"; do psql_on postgres --command="DROP DATABASE IF EXISTS \"$database\" WITH (FORCE)" 2>/dev/null || true; done
}
at_exit finish

psql_on() { "$bindir/psql" --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 --dbname="$1" "${@:2}"; }

# What the lock file names, and the package as npm packs it. 69: the registry cannot be reached.
install() {
    npm_ci integrations/node || return
    cp -r "$tests"/*.ts "$tests"/servers "$copy" || return
    local package
    package=$(scripts/integrations.sh node) || return
    rm -rf "$copy/node_modules/idem-postgres"
    mkdir -p "$copy/node_modules/idem-postgres"
    tar --extract --gzip --strip-components=1 --directory="$copy/node_modules/idem-postgres" --file "$package"
}

# make_database NAME: idem in a schema of its own, and the table of the servers.
make_database() {
    psql_on postgres --command="DROP DATABASE IF EXISTS \"$1\" WITH (FORCE)" --command="CREATE DATABASE \"$1\"" 2>/dev/null
    made+=("$1")
    if [[ $1 == *_portable ]]; then IDEM_PORTABLE=1 install_idem "$1"; else install_idem "$1"; fi
    psql_on "$1" --command='CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)'
}

# In front of the cluster, unless it has one already.
start_pooler() {
    [ -S "$PGHOST/pooler/.s.PGSQL.6432" ] || { scripts/pooler.sh start "$cluster" max_client_conn=200 default_pool_size=20 && pooler=started; }
}

# run NAME FILE: a test that hangs is to fail.
run() {
    set -m
    (
        if [ "$1" = express-pooled ]; then eval "$(scripts/pooler.sh env "$cluster")"; fi
        cd "$copy" && exec timeout --kill-after=10 900 node --test-reporter=tap "$2"
    ) </dev/null &
    child=$!
    set +m
    local status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

mkdir -p "$copy"
status=0
install >"$copy/install.log" 2>&1 || status=$?
case $status in
    0) ;;
    69) echo "ok 1 - integrations/node # SKIP its packages cannot be installed here"; exit ;;
    *) tail -n 40 "$copy/install.log" >&2; exit 1 ;;
esac
failed=0
for name in "${names[@]}"; do
    case $name in
        core | databases | agents) files=("$copy/$name".*test.js) ;;
        *) files=("$copy/framework.test.js") ;;
    esac
    database=idem_node_${name//[-.]/_}
    make_database "$database"
    echo "# $name"
    export FRAMEWORK=$name PGDATABASE=$database SHARED=$tests/..
    if [ "$name" = express-pooled ]; then start_pooler; fi
    for file in "${files[@]}"; do run "$name" "$file" || failed=1; done
done
exit "$failed"
