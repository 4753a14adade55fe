#!/usr/bin/env bash
# The Python package with real frameworks, on the cluster of libpq's environment. Prints TAP.
#
#   run.sh [SUITE ...]    fastapi and the others: every suite, or these
#
# IDEM_REQUESTS: how many requests each framework gets (1000). IDEM_PORTABLE=1: on the portable edition. IDEM_POOLED=1: through PgBouncer
# in transaction mode, which needs a cluster of scripts/cluster.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

drivers="python3-psycopg python3-psycopg-pool python3-psycopg2 python3-asyncpg python3-sqlalchemy"
declare -A packages=(
    [package]="mypy python3-fastapi python3-uvicorn python3-django python3-alembic" [vectors]="" [flows]="" [functions]="" [work]="" [tools]="" [celery]=python3-celery [django]="python3-django gunicorn"
    [fastapi]="python3-fastapi python3-uvicorn" [fastapi-asyncpg]="python3-fastapi python3-uvicorn" [fastapi-sqlalchemy]="python3-fastapi python3-uvicorn"
    [flask]="python3-flask gunicorn" [flask-psycopg]="python3-flask gunicorn" [flask-sqlalchemy]="python3-flask gunicorn"
)
suites=()
[ $# -gt 0 ] || set -- package vectors flows functions work tools fastapi fastapi-asyncpg fastapi-sqlalchemy flask flask-psycopg flask-sqlalchemy celery django
for suite; do
    # shellcheck disable=SC2086 # words
    if scripts/deps.sh $drivers ${packages[$suite]} >&2; then
        suites+=("$suite")
    else
        echo "ok - $suite # SKIP its packages cannot be installed here"
    fi
done
[ ${#suites[@]} -gt 0 ] || exit 0

database=integrations_python_$$
psql=("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1)
cluster=$(basename "$PGHOST")
child='' pooler=''

# shellcheck disable=SC2317 # called by at_exit
finish() {
    end_group KILL "$child"
    if [ -n "$pooler" ]; then scripts/pooler.sh stop "$cluster" || true; fi
    PGHOST=$direct_host PGPORT=$direct_port "${psql[@]}" --dbname=postgres --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" || true
}
direct_host=$PGHOST direct_port=$PGPORT
at_exit finish

"${psql[@]}" --dbname=postgres --command="CREATE DATABASE $database"
export PGDATABASE=$database
install_idem "$database" >&2
if [ -n "${IDEM_PORTABLE:-}" ]; then "${psql[@]}" --command='GRANT USAGE ON SCHEMA idem TO public'; fi
"${psql[@]}" --output=/dev/null --file=tests/integrations/python/shop.sql

export IDEM_LOGS=$PWD/build/integrations/python/logs IDEM_DIRECT="host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE"
mkdir -p "$IDEM_LOGS"

if [ -n "${IDEM_POOLED:-}" ]; then
    scripts/pooler.sh start "$cluster" default_pool_size=10 >&2
    pooler=started
    eval "$(scripts/pooler.sh env "$cluster")"
fi

# A timeout ends a test that hangs. The test ends its servers; all else that it starts is in one process group.
export PYTHONPATH=$PWD/integrations/python/src:$PWD/tests/integrations/python:$PWD/tests/integrations/python/apps PYTHONDONTWRITEBYTECODE=1
set -m
timeout --kill-after=10 "${IDEM_TIMEOUT:-3600}" /usr/bin/python3 tests/integrations/python/check.py "${suites[@]}" </dev/null &
child=$!
set +m
status=0
wait "$child" || status=$?
child=
exit "$status"
