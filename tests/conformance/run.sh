#!/usr/bin/env bash
# Tests servers by `idem http-test --reference`. Prints TAP.
#
#   run.sh [NAME ...]    memory: the reference app without idem, which is right; faults: the same with planted faults, each of which is to be
#                        found; express express4 fastify fastify4 koa hono nestjs nestjs-fastify web, fastapi flask django, jetty tomcat9 tomcat10
#                        spring, go, rack, php: the app of that framework, in a database of its own on the cluster of libpq's environment; servers: all
#                        of these; pglite: that of Express, with the database in its process. All without a name
#
# PROFILES: "ietf stripe acp ucp" by default. IDEM: the command. IDEM_PORTABLE=1: on the portable edition. IDEM_POOLED=1: the apps go through pgbouncer,
# which needs a cluster of scripts/cluster.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/lib.sh
source scripts/tap.sh

here=tests/conformance
idem=${IDEM:-build/cmake/bin/idem}
profiles=${PROFILES:-ietf stripe acp ucp}
work=$(mktemp -d)
cluster=$(basename "${PGHOST:-}")
child='' database='' installed='' cutter='' pooler=()
node=(express express4 fastify fastify4 koa hono nestjs nestjs-fastify web)
others=(fastapi flask django jetty tomcat9 tomcat10 spring go rack php)

# shellcheck disable=SC2317 # called by at_exit
end() {
    stop
    if [ -n "$cutter" ]; then kill "$cutter" 2>/dev/null || true; fi
    if [ ${#pooler[@]} -gt 0 ]; then scripts/pooler.sh stop "$cluster" || true; fi
    if [ -n "$database" ]; then psql_on postgres --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" 2>/dev/null || true; fi
    rm -rf "$work"
}
at_exit end

psql_on() { "$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 --dbname="$1" "${@:2}"; }

# serve COMMAND ...: in the background; sets `port` to what it prints.
serve() {
    set -m
    "$@" >"$work/port" 2>>"$work/log" </dev/null &
    child=$!
    set +m
    for _ in {1..1200}; do # PGlite and Java start slowly on a busy machine
        if [ -s "$work/port" ]; then read -r port <"$work/port" && return; fi
        sleep 0.1
    done
    cat "$work/log" >&2
    return 1
}

# The server, or the one that was started in its place.
stop() {
    local restarted
    end_group KILL "$child"
    child=
    if [ -s "$work/restarted" ]; then
        read -r restarted <"$work/restarted"
        # shellcheck disable=SC2046 # PHP's server has a process for each request at once
        kill -KILL "$restarted" $(pgrep -P "$restarted") 2>/dev/null || true
    fi
    rm -f "$work/port" "$work/restarted"
}

# http_test PROFILE [OPTION ...]
http_test() { timeout 300 "$idem" http-test "http://127.0.0.1:$port" --profile "$1" --reference "${@:2}"; }

test_memory() {
    local profile
    for profile in $profiles; do
        serve python3 $here/apps/memory.py "$profile"
        tap "a right server, $profile" http_test "$profile"
        stop
    done
}

# Exit code 1, and that case failed.
fails() {
    local status=0
    http_test "$1" --only "$2" --json >"$work/json" || status=$?
    cat "$work/json"
    [ "$status" -eq 1 ] && grep --quiet '"result": "failed"' "$work/json"
}

test_faults() {
    local fault profile case
    while read -r fault profile case; do
        serve python3 $here/apps/memory.py "$profile" "$fault"
        tap "$fault, $profile: $case" fails "$profile" "$case"
        stop
    done < <(grep --invert-match '^#' $here/faults)
    tap 'each fault is found' diff <(sed -n 's/^\([a-z_]*\) .*/\1/p' $here/faults | sort --unique) \
        <(python3 $here/apps/memory.py none 2>&1 | tail -n 1 | tr ' ' '\n' | sort --unique)
}

# The packages of Node's apps are those of tests/integrations/node. 69: they cannot be fetched.
install_node() {
    if [ -n "$installed" ]; then return; fi
    npm_ci integrations/node || return
    local package packed=$copy/node_modules/idem-postgres
    package=$(scripts/integrations.sh node) || return
    rm -rf "$packed"
    mkdir -p "$packed" && tar --extract --gzip --strip-components=1 --directory="$packed" --file "$package" && cp $here/apps/*.js "$copy" || return
    installed=1
}

is_node() { [[ " ${node[*]} pglite " == *" $1 "* ]]; }

# install NAME
install() { if is_node "$1"; then install_node; else $here/apps/start.sh --install "$1"; fi; }

# node_app NAME: sets `app`, the words that start it.
node_app() {
    app=("${through[@]}" node "$copy/$1.js")
    case $1 in
        express4) app=("${through[@]}" EXPRESS=express4 node "$copy/express.js") ;;
        fastify4) app=("${through[@]}" FASTIFY=fastify4 node "$copy/fastify.js") ;;
        pglite) app=(env DATABASE=pglite node "$copy/express.js") ;;
        nestjs-fastify) app=("${through[@]}" PLATFORM=fastify node "$copy/nestjs.js") ;;
    esac
}

# Sets `pooler`, the environment of what goes through it.
start_pooler() {
    if [ -z "${IDEM_POOLED:-}" ] || [ ${#pooler[@]} -gt 0 ]; then return; fi
    scripts/pooler.sh start "$cluster" max_client_conn=200 default_pool_size=20 &&
        read -ra pooler < <(scripts/pooler.sh env "$cluster" | sed 's/^export //')
}

# Sets `through`, the environment of an app: its connections pass a proxy, which can lose the answer to a COMMIT.
start_cutter() {
    local host port
    # shellcheck disable=SC2016 # of what goes through the pooler
    read -r host port < <(env "${pooler[@]}" sh -c 'echo "$PGHOST ${PGPORT:-5432}"')
    if [ -z "$cutter" ]; then
        $here/cut.py "$work/.s.PGSQL.$port" "$host/.s.PGSQL.$port" </dev/null &
        cutter=$!
        until [ -S "$work/.s.PGSQL.$port" ]; do sleep 0.1; done
    fi
    through=(env "${pooler[@]}" PGHOST="$work" PGPORT="$port" CUTTER="$cutter")
}

# The app runs again at the same port after it was killed.
test_app() {
    local name=$1 app through profile restart status=0
    install "$name" >"$work/install" 2>&1 || status=$?
    if [ "$status" -eq 69 ]; then skip "$name" 'its packages cannot be installed here' && return; fi
    if [ "$status" -ne 0 ]; then cat "$work/install" >&2 && return 1; fi
    start_pooler
    start_cutter
    if is_node "$name"; then node_app "$name"; else app=("${through[@]}" "$here/apps/start.sh" "$name"); fi
    restart="${app[*]@Q} >/dev/null 2>>'$work/log' </dev/null & echo \$! >'$work/restarted'"
    database=idem_conformance_${name//-/_}
    for profile in $profiles; do
        psql_on postgres --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" --command="CREATE DATABASE $database" 2>/dev/null
        install_idem "$database"
        export PGDATABASE=$database PROFILE=$profile PORT
        PORT=$(free_port)
        serve "${app[@]}"
        status=0
        http_test "$profile" --json --restart "$restart" >"$work/json" || status=$?
        if [ "$status" -gt 1 ]; then cat "$work/log" >&2 && failed=1; fi
        $here/tap.py "$name" "$profile" <"$work/json" >"$work/tap"
        cat "$work/tap"
        if grep '^not ok' "$work/tap" | grep --quiet --invert-match '# TODO'; then failed=1; fi
        count=$((count + $(grep --count --extended-regexp '^(not )?ok' "$work/tap")))
        stop
    done
    unset PGDATABASE PROFILE PORT
    psql_on postgres --command="DROP DATABASE $database WITH (FORCE)"
    database=
}

[ $# -gt 0 ] || set -- memory faults pglite servers
names=()
for name; do
    if [ "$name" = servers ]; then names+=("${node[@]}" "${others[@]}"); else names+=("$name"); fi
done
for name in "${names[@]}"; do
    if [ "$name" = memory ] || [ "$name" = faults ]; then "test_$name"
    elif is_node "$name" || [[ " ${others[*]} " == *" $name "* ]]; then test_app "$name"
    else
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
        exit 2
    fi
done
finish
