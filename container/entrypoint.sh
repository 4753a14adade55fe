#!/usr/bin/env bash
# Makes a cluster with idem at the first start, and starts the server. Arguments go to the server. As the user postgres.
#
# POSTGRES_PASSWORD, or POSTGRES_PASSWORD_FILE, the superuser's; needed at the first start
# POSTGRES_DB                                  the database with idem, in its schema idem (shop)
set -euo pipefail
bin=/usr/lib/postgresql/18/bin
database=${POSTGRES_DB:-shop}

# Beside its place, so that a start that is interrupted leaves nothing that looks complete.
make_cluster() {
    local new=$PGDATA.new password=${POSTGRES_PASSWORD:-}
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then password=$(<"$POSTGRES_PASSWORD_FILE"); fi
    [ -n "$password" ] || { echo 'entrypoint.sh: POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE is needed at the first start' >&2; exit 1; }
    rm -rf "$new"
    "$bin/initdb" --pgdata="$new" --username=postgres --pwfile=<(printf '%s\n' "$password") --auth-local=peer --auth-host=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8
    cat >>"$new/postgresql.conf" <<SETTINGS
listen_addresses = '*'
shared_preload_libraries = 'idem'
idem.databases = '${database//\'/\'\'}'
SETTINGS
    echo 'host all all all scram-sha-256' >>"$new/pg_hba.conf"
    "$bin/pg_ctl" start --silent --wait --pgdata="$new" --options="-c listen_addresses=''"
    if [ "$database" != postgres ]; then "$bin/createdb" "$database"; fi
    "$bin/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname="$database" <<'SQL'
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
SELECT format('ALTER DATABASE %I SET search_path = public, idem', current_database()) \gexec
SQL
    "$bin/pg_ctl" stop --silent --wait --pgdata="$new" --mode=fast
    mv "$new" "$PGDATA"
}

if [ ! -e "$PGDATA" ]; then make_cluster; fi
exec "$bin/postgres" -D "$PGDATA" "$@"
