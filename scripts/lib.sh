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
