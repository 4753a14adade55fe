#!/usr/bin/env bash
# The Python package with real frameworks, on the cluster of libpq's environment. Prints TAP.
#
#   run.sh [SUITE ...]    fastapi and the others: every suite, or these
#
# IDEM_REQUESTS: how many requests each framework gets (1000). IDEM_PORTABLE=1: on the portable edition. IDEM_POOLED=1: through PgBouncer
# in transaction mode.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

scripts/deps.sh python3-fastapi python3-uvicorn python3-flask gunicorn python3-django python3-celery python3-psycopg python3-psycopg-pool \
    python3-psycopg2 python3-asyncpg python3-sqlalchemy >&2

database=integrations_python_$$
psql=("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1)
home=$(mktemp -d /tmp/idem-python.XXXXXX)
child=

# shellcheck disable=SC2317 # called by at_exit
finish() {
    end_group KILL "$child"
    if [ -f "$home/pid" ]; then kill "$(cat "$home/pid")" || true; fi
    PGHOST=$direct_host PGPORT=$direct_port "${psql[@]}" --dbname=postgres --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" || true
    rm -rf "$home"
}
direct_host=$PGHOST direct_port=$PGPORT
at_exit finish

"${psql[@]}" --dbname=postgres --command="CREATE DATABASE $database"
export PGDATABASE=$database
if [ -n "${IDEM_PORTABLE:-}" ]; then
    install_portable "$database" >&2
    "${psql[@]}" --command='GRANT USAGE ON SCHEMA idem TO public'
else
    "${psql[@]}" --command='CREATE SCHEMA idem' --command='CREATE EXTENSION idem SCHEMA idem'
fi

"${psql[@]}" --output=/dev/null --file=tests/integrations/python/shop.sql

export IDEM_LOGS=$PWD/build/integrations/python/logs IDEM_DIRECT="host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE"
mkdir -p "$IDEM_LOGS"

if [ -n "${IDEM_POOLED:-}" ]; then
    printf '%s\n' '[databases]' "* = host=$PGHOST port=$PGPORT user=$PGUSER" '[pgbouncer]' 'listen_addr =' 'listen_port = 6432' \
        "unix_socket_dir = $home" 'auth_type = any' 'pool_mode = transaction' 'default_pool_size = 10' \
        'ignore_startup_parameters = extra_float_digits,options' "pidfile = $home/pid" "logfile = $home/log" >"$home/pgbouncer.ini"
    chmod 0711 "$home"
    if is_root; then chown -R postgres: "$home"; fi
    as_server "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" --daemon --quiet "$home/pgbouncer.ini"
    export PGHOST=$home PGPORT=6432
fi

# What hangs is to fail. All that a test starts is in one process group but for the servers, which the test ends.
export PYTHONPATH=$PWD/integrations/python/src:$PWD/tests/integrations/python:$PWD/tests/integrations/python/apps PYTHONDONTWRITEBYTECODE=1
set -m
timeout --kill-after=10 "${IDEM_TIMEOUT:-3600}" /usr/bin/python3 tests/integrations/python/check.py "$@" </dev/null &
child=$!
set +m
status=0
wait "$child" || status=$?
child=
exit "$status"
