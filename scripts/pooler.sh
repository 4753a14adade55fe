#!/usr/bin/env bash
# A private pgbouncer in transaction mode before a cluster of cluster.sh, inside the cluster's directory.
#
#   pooler.sh start NAME [setting=value ...]   for pgbouncer's section [pgbouncer]; with listen_addr=127.0.0.1 and listen_port=... it is
#                                              reached over TCP too
#   pooler.sh env NAME                         print what a client needs, for eval
#   pooler.sh stop NAME                        cluster.sh stop does it as well
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

[ $# -ge 2 ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
command=$1 name=$2
shift 2
eval "$(scripts/cluster.sh env "$name")"
cluster=$PGHOST
dir=$cluster/pooler

# The one that is given last.
port() { sed -n 's/^listen_port *= *//p' "$dir/pgbouncer.ini" | tail -n 1; }

answers() { PGHOST=$dir PGPORT=$(port) PGDATABASE=pgbouncer psql --no-psqlrc --quiet --command='SHOW VERSION' >/dev/null 2>&1; }

start() {
    mkdir -p "$dir"
    {
        printf '[databases]\n* = host=%s port=%s user=postgres\n\n[pgbouncer]\n' "$cluster" "$PGPORT"
        printf '%s\n' 'listen_addr =' 'listen_port = 6432' "unix_socket_dir = $dir" 'auth_type = any' 'admin_users = postgres' \
            'pool_mode = transaction' 'ignore_startup_parameters = extra_float_digits,options' "pidfile = $dir/pid" \
            "logfile = $dir/log" "$@"
    } >"$dir/pgbouncer.ini"
    if is_root; then chown -R postgres: "$dir"; fi
    # Debian keeps it where only root looks.
    as_server "$(PATH=$PATH:/usr/sbin command -v pgbouncer)" --daemon --quiet "$dir/pgbouncer.ini"
    for ((i = 0; i < 100; i++)); do
        if answers; then return; fi
        sleep 0.1
    done
    cat "$dir/log" >&2
    echo 'pooler.sh: pgbouncer did not start' >&2
    exit 1
}

case $command in
    start) start "$@" ;;
    env) echo "export PGHOST=$dir PGPORT=$(port) PGUSER=postgres" ;;
    stop) if [ -f "$dir/pid" ]; then kill "$(cat "$dir/pid")"; fi ;;
esac
