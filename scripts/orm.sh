#!/usr/bin/env bash
# The recipes of docs/orm.md, each with the real packages, on a private cluster that is gone afterwards. Prints TAP.
#
#   orm.sh all          every ORM
#   orm.sh ORM ...      these
#
# An ORM whose packages cannot be installed is skipped: one line says so.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

npm_orms=(sequelize typeorm mikro-orm drizzle kysely prisma)
declare -A debian_packages=(
    [sqlalchemy]="python3 python3-sqlalchemy python3-alembic python3-psycopg2"
    [django]="python3 python3-django python3-psycopg2"
    [active-record]="ruby ruby-activerecord ruby-pg"
    [doctrine]="php-cli php-doctrine-orm php-pgsql"
)

cluster=orm-$$
kept=$PWD/build/orm
root=$PWD
child=

# shellcheck disable=SC2317 # called by at_exit
finish() {
    end_group KILL "$child"
    cp "${sockets:-}/server.log" "$kept" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster" || true
}
at_exit finish

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

skip() { echo "ok 1 - $1 # SKIP $2"; }

# install ORM: sets `command`. 69: its packages cannot be had here.
install() {
    if [[ -v debian_packages[$1] ]]; then
        # shellcheck disable=SC2086 # words
        scripts/deps.sh ${debian_packages[$1]} || return 69
    else
        { command -v node && command -v npm; } >/dev/null || scripts/deps.sh nodejs npm || return 69
        # What TypeORM and Prisma require.
        node --eval 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 69)' || return
        npm_ci orm || return
    fi
    case $1 in
        sqlalchemy | django) command=(/usr/bin/python3 "tests/orm/$1_test.py") ;;
        active-record) command=(/usr/bin/ruby tests/orm/active_record_test.rb) ;;
        doctrine) command=(/usr/bin/php tests/orm/doctrine_test.php) ;;
        *) command=(node --test-reporter=tap "$copy/$1.test.js") ;;
    esac
}

# make_database ORM: owned by a role that may use idem and nothing more.
make_database() {
    PGUSER=postgres PGDATABASE=postgres "$bindir/psql" -Xq --output=/dev/null --set=ON_ERROR_STOP=1 --set=name="$1" --file=tests/orm/database.sql
}

orms=("$@")
if [ "${1:-}" = all ]; then orms=("${npm_orms[@]}" "${!debian_packages[@]}"); fi
[ ${#orms[@]} -gt 0 ] || usage
for orm in "${orms[@]}"; do
    [[ " ${npm_orms[*]} ${!debian_packages[*]} " == *" $orm "* ]] || usage
done

mkdir -p "$kept"
if ! { scripts/deps.sh && scripts/install.sh; } >"$kept/build.log" 2>&1; then
    tail -n 40 "$kept/build.log" >&2
    exit 1
fi
bindir=$("$PG_CONFIG" --bindir)
scripts/cluster.sh start "$cluster" fsync=off statement_timeout=10s
eval "$(scripts/cluster.sh env "$cluster")"
sockets=$PGHOST
export PYTHONDONTWRITEBYTECODE=1 PGUSER=shop IDEM_GUARDS=$root/tests/orm/guards.sql

failed=0
for orm in "${orms[@]}"; do
    status=0
    install "$orm" >"$kept/$orm-install.log" 2>&1 || status=$?
    case $status in
        0) ;;
        69) skip "$orm" "its packages cannot be installed here"; continue ;;
        *) tail -n 40 "$kept/$orm-install.log" >&2; failed=1; continue ;;
    esac
    export PGDATABASE=orm_${orm//-/_}
    make_database "$PGDATABASE"
    echo "# $orm"
    # A test that hangs is to fail.
    set -m
    timeout --kill-after=10 300 "${command[@]}" </dev/null &
    child=$!
    set +m
    wait "$child" || failed=1
    child=
done
exit "$failed"
