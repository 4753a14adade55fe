# Shared by the files of tests/examples. scripts/examples.sh makes the cluster and ends whatever is left running.
# shellcheck shell=bash

# Debian's, which has Debian's packages.
PYTHON=${PYTHON:-/usr/bin/python3}

# As the superuser, in the database of the file.
sql() { PGHOST=$IDEM_SOCKETS PGUSER=postgres psql -XAtq --set=ON_ERROR_STOP=1 -c "$1"; }

# make_database NAME TABLES: with the extension in it, or the portable edition from the template, and owned by a role that may use it and nothing more.
make_database() {
    export PGHOST=$IDEM_SOCKETS PGUSER=postgres PGDATABASE=postgres
    psql -Xq --output=/dev/null --set=ON_ERROR_STOP=1 <<SQL || return
SET client_min_messages = warning;
SELECT 'CREATE ROLE shop LOGIN PASSWORD ''shop''' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') \gexec
DROP DATABASE IF EXISTS $1 WITH (FORCE);
CREATE DATABASE $1 OWNER shop;
\connect $1
CREATE SCHEMA IF NOT EXISTS idem;
SELECT 'CREATE EXTENSION idem SCHEMA idem' WHERE to_regproc('idem.idem_version') IS NULL \gexec
GRANT USAGE ON SCHEMA idem TO shop;
SELECT FROM idem.idem_grant('shop');
SQL
    # From here on as an application would: over TCP, with a password.
    export PGHOST=127.0.0.1 PGUSER=shop PGPASSWORD=shop PGDATABASE=$1
    psql -Xq --output=/dev/null --set=ON_ERROR_STOP=1 --file="$2"
}

# --- Servers of a test's -------------------------------------------------------------------------------------------------

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

# spawn NAME COMMAND…: in the background; what it prints is NAME.log in the directory that everything here is in.
spawn() {
    local name=$1 files=$IDEM_SOCKETS/examples/$1
    shift
    # as_server is a function; what it runs is to be the process itself.
    if [ "$1" = as_server ]; then
        shift
        if is_root; then
            set -- setpriv --reuid=postgres --regid=postgres --init-groups --reset-env env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
        fi
    fi
    (
        cd "$IDEM_SOCKETS/examples"
        # bats waits for whoever holds one of its files open.
        for file in /proc/$BASHPID/fd/*; do
            file=${file##*/}
            if [ "$file" -gt 2 ]; then eval "exec $file>&-"; fi
        done
        exec "$@"
    ) >>"$files.log" 2>&1 </dev/null &
    echo $! >"$files.pid"
    disown
}

# A zombie does not.
lives() {
    local state
    state=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    [[ $state != *") Z "* ]]
}

# end NAME SIGNAL: and waits until it is gone, if it is not already.
end() {
    local files=$IDEM_SOCKETS/examples/$1 pid i
    pid=$(cat "$files.pid" 2>/dev/null) || return 0
    rm "$files.pid"
    kill "-$2" "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 600; i++)); do
        if ! lives "$pid"; then return; fi
        sleep 0.05
    done
    echo "$1 does not end" >&2
    return 1
}

# Until somebody listens there.
await_port() {
    for ((i = 0; i < 6000; i++)); do
        (exec 9<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
    echo "nobody listens on port $1" >&2
    return 1
}
