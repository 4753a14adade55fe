#!/usr/bin/env bash
# A private, throw-away PostgreSQL cluster: Unix socket only, superuser "postgres", never the system's own cluster. With
# listen_addresses=127.0.0.1 and port=... it is reached over TCP too, and asks for a password there.
#
#   cluster.sh start NAME [setting=value ...]   make and start it; a running one is left as it is
#   cluster.sh env NAME                         print what a client needs, for eval
#   cluster.sh psql NAME [argument ...]         open psql on it
#   cluster.sh stop NAME                        stop and remove it
#
# IDEM_POSTGRES names a program to start in the place of "postgres": one that starts it under a tool.
set -euo pipefail

source "$(dirname "$0")/lib.sh"

die() { echo "cluster.sh: $*" >&2; exit 1; }

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

[ $# -ge 2 ] || usage
command=$1 name=$2
shift 2
[[ $name =~ ^[A-Za-z0-9_-]{1,40}$ ]] || die "cluster name \"$name\" is not of letters, digits, - and _"

bindir=$("$PG_CONFIG" --bindir)
[ -x "$bindir/initdb" ] || die "no PostgreSQL server programs in $bindir; \`make deps\` installs them"

# A socket's path must be shorter than 108 bytes, so neither $TMPDIR nor the checkout will do.
base=/tmp/idem-$(id -u)
dir=$base/$name
data=$dir/data

port() { sed -n "s/^port = '\{0,1\}\([0-9]*\).*/\1/p" "$data/postgresql.conf" | tail -n 1; }

answers() { [ -f "$data/postgresql.conf" ] && "$bindir/pg_isready" --quiet --host="$dir" --port="$(port)"; }

# Others can write to /tmp: trust the directory only if it is ours. Its lock serialises starts and stops.
enter_base() {
    mkdir -m 0711 "$base" 2>/dev/null || true
    [ -d "$base" ] && [ ! -L "$base" ] && [ -O "$base" ] || die "$base exists and is not a directory of yours"
    exec 9<"$base"
    flock 9
    cd /
}

# A postmaster.pid may be left from a crash, its number another process's by now. Only a postmaster, whose working
# directory is its data directory, may be signalled. Immediate: what it would write is about to be removed, and a fast
# shutdown hangs while a server recovers from a crash.
stop_postmaster() {
    local data=$1 pid
    pid=$(head -n 1 "$data/postmaster.pid") || return 0
    [ "/proc/$pid/cwd" -ef "$data" ] || return 0
    as_server "$bindir/pg_ctl" stop --silent --pgdata="$data" --mode=immediate
}

# Tests may have made further clusters inside the directory, and pooler.sh a pooler.
remove() {
    [ -d "$dir" ] || return 0
    local pid_file
    if [ -f "$dir/pooler/pid" ]; then kill "$(cat "$dir/pooler/pid")" || true; fi
    while read -r pid_file; do
        stop_postmaster "$(dirname "$pid_file")"
    done < <(find "$dir" -name postmaster.pid)
    rm -rf "$dir"
}

write_settings() {
    echo "listen_addresses = ''"
    echo "unix_socket_directories = '$dir'"
    echo "port = 5432"
    local setting
    for setting in "$@"; do
        [[ $setting =~ ^[a-z_][a-z0-9_.]*= ]] || die "\"$setting\" is not setting=value"
        echo "${setting%%=*} = '$(sed "s/'/''/g" <<<"${setting#*=}")'"
    done
}

make_directory() {
    mkdir -m 0700 "$dir"
    if is_root; then chown postgres: "$dir"; fi
}

show_log() {
    if [ -f "$dir/server.log" ]; then tail -n 20 "$dir/server.log"; else cat "$dir/initdb.log"; fi
}

start() {
    enter_base
    if answers; then return; fi
    remove
    trap 'show_log >&2; remove' EXIT
    make_directory
    as_server "$bindir/initdb" --pgdata="$data" --username=postgres --auth-local=trust --auth-host=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 9>&-
    write_settings "$@" >>"$data/postgresql.conf"
    as_server "$bindir/pg_ctl" start --silent --wait --timeout=60 --pgdata="$data" --log="$dir/server.log" \
        ${IDEM_POSTGRES:+-p "$IDEM_POSTGRES"} 9>&-
    trap - EXIT
}

stop() {
    [ -d "$dir" ] || return 0
    enter_base
    remove
}

# Without a cluster, `false` makes the caller's eval fail: after an eval of nothing, clients would go to the system's cluster.
print_env() {
    [ -d "$data" ] || { echo false; die "there is no cluster \"$name\"; \`$0 start $name\` makes it"; }
    echo "export PGHOST=$dir PGPORT=$(port) PGUSER=postgres PGDATABASE=postgres"
}

case $command in
    start) start "$@" ;;
    stop) stop ;;
    env) print_env ;;
    psql) eval "$(print_env)"; exec "$bindir/psql" "$@" ;;
    *) usage ;;
esac
