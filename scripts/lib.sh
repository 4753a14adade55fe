# What the scripts share. Sourced, never run.
# shellcheck shell=bash

PG_CONFIG=${PG_CONFIG:-pg_config}
export PG_CONFIG

# A make that runs inside one of these scripts is no part of the make that started the script.
unset MAKEFLAGS MFLAGS MAKELEVEL

is_root() { [ "$(id -u)" -eq 0 ]; }

as_root() {
    if is_root; then "$@"; else sudo -n "$@"; fi
}

# PostgreSQL refuses to run as root. Clients' settings are no business of the server's.
as_server() {
    if is_root; then
        setpriv --reuid=postgres --regid=postgres --init-groups --reset-env "$@"
    else
        env -u PGDATA -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGOPTIONS "$@"
    fi
}

# One that no client is given: clients that knock at the door of a server that is down could meet themselves.
free_port() {
    /usr/bin/python3 - <<'PY'
import random, socket
while True:
    with socket.socket() as probe:
        port = random.randrange(15000, 32000)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        print(port)
        break
PY
}

# at_exit FUNCTION: what ends all that the script has started, whatever way out is taken.
at_exit() {
    # shellcheck disable=SC2064 # now
    trap "trap '' INT TERM HUP; $1" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# end_group SIGNAL [PID]: ends a process group of this script, if there is one.
end_group() {
    [ -n "${2:-}" ] || return 0
    kill "-$1" -- "-$2" 2>/dev/null || true
    wait "$2" 2>/dev/null || true
}

# create_idem CLUSTER: install_idem, in its database, whose later sessions find idem's names.
create_idem() (
    eval "$(scripts/cluster.sh env "$1")" && install_idem "$PGDATABASE" &&
        "$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 <<'SQL'
SELECT format('ALTER DATABASE %I SET search_path = public, idem', current_database()) \gexec
SQL
)

# install_idem DATABASE: in the schema idem, in the cluster of the environment, as docs/operations.md has it; with IDEM_PORTABLE in the environment,
# the portable edition. Where an edition is there already, it stays where it is.
install_idem() {
    if [ -n "${IDEM_PORTABLE:-}" ]; then install_portable "$1" || return; fi
    "$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null --dbname="$1" <<'SQL'
SET client_min_messages = warning;
CREATE SCHEMA IF NOT EXISTS idem;
SELECT 'CREATE EXTENSION IF NOT EXISTS idem SCHEMA idem' WHERE to_regproc('idem.idem_version') IS NULL \gexec
SQL
}

# In the cluster of the environment: a database that has pgTAP and idem, a schema each. An edition that is there from the template stays.
make_pgtap_database() {
    "$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 <<'SQL'
SELECT 'CREATE DATABASE pgtap' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'pgtap') \gexec
\connect pgtap
CREATE SCHEMA IF NOT EXISTS tap;
CREATE EXTENSION IF NOT EXISTS pgtap SCHEMA tap;
CREATE SCHEMA IF NOT EXISTS idem;
SELECT 'CREATE EXTENSION idem SCHEMA idem' WHERE to_regproc('idem.idem_version') IS NULL \gexec
ALTER DATABASE pgtap SET search_path = idem, tap, public;
SQL
}

# install_portable DATABASE: makes the portable edition, and load_portable.
install_portable() {
    make --silent --directory="$(dirname "${BASH_SOURCE[0]}")/.." portable && load_portable "$1"
}

# load_portable DATABASE: the portable edition, as it was made, into its schema idem, in the cluster of the environment, by a role that is no
# superuser. Databases that are made of it have it, too.
load_portable() {
    local psql=("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname="$1" --output=/dev/null) root
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || return
    "${psql[@]}" <<'SQL' &&
SELECT 'CREATE ROLE idem_owner LOGIN' WHERE to_regrole('idem_owner') IS NULL \gexec
SELECT format('GRANT CREATE ON DATABASE %I TO idem_owner', current_database()) \gexec
SQL
        "${psql[@]}" --username=idem_owner --file="$root/build/idem--portable.sql"
}

# npm_ci NAME: a copy of tests/NAME, a workspace of tests/package.json, with what the lock file names for it, below build/npm; sets `copy`.
# Nothing is fetched when it is there. 69: the registry cannot be reached. No package may run a script: some would download programs.
npm_ci() {
    local tests home
    tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests" && pwd) || return
    home=$(dirname "$tests")/build/npm/${1//\//-}
    copy=$home/$1
    mkdir -p "$copy"
    (cd "$tests" && cp --parents package.json package-lock.json ./*/package.json ./*/*/package.json "$home") && cp "$tests/$1"/*.js* "$copy" || return
    cmp --silent "$home/package-lock.json" "$home/installed.lock" && return
    (cd "$home" && npm ci --workspace="$1" --ignore-scripts --no-audit --no-fund 2>&1 && cp package-lock.json installed.lock) && return
    npm ping --fetch-retries 0 --fetch-timeout 5000 >/dev/null 2>&1 && return 1
    return 69
}

# npm_ci_for_tap NAME LOG: the same for a script whose output is TAP, which it ends when there is nothing to run.
npm_ci_for_tap() {
    local status=0
    npm_ci "$1" >"$2" || status=$?
    if [ "$status" -eq 69 ]; then
        echo '1..0 # SKIP the npm registry cannot be reached'
        exit 0
    elif [ "$status" -ne 0 ]; then
        cat "$2" >&2
        exit 1
    fi
}
