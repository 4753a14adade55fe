#!/usr/bin/env bash
# The tests of examples/, on real parts: nginx, RabbitMQ, webhooks. On a private cluster that listens on
# loopback; it is gone afterwards, with all else that was started.
#
#   examples.sh [FILE ...]    tests/examples, or some of its files; prints TAP
#
# IDEM_PORTABLE=1 in the environment: on the portable edition.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

cluster=examples-$$
export PSQL_CLUSTER=examples-psql-$$ # of the test of scripts/psql.sh
kept=$PWD/build/examples
child='' watchdog=''

# All that a test starts is in one process group. What a server would write if it were asked to end is about to be removed; and
# RabbitMQ would start another epmd in the place of one that ended before it.
finish() {
    end_group KILL "$child"
    cp "${IDEM_SOCKETS:-}"/server.log "${IDEM_SOCKETS:-}"/examples/*.log "$kept" 2>/dev/null || true
    end_group KILL "$watchdog"
    scripts/cluster.sh stop "$cluster" || true
    scripts/cluster.sh stop "$PSQL_CLUSTER" || true
}
at_exit finish

mkdir -p "$kept"
if ! { scripts/deps.sh --examples && scripts/install.sh; } >"$kept/build.log" 2>&1; then
    tail -n 40 "$kept/build.log" >&2
    exit 1
fi

# shellcheck source=tests/examples/helper.bash
source tests/examples/helper.bash
# fsync: the cluster does not outlive the tests. deadlock_timeout: none of the examples may need it.
scripts/cluster.sh start "$cluster" listen_addresses=127.0.0.1 port="$(free_port)" fsync=off max_connections=60 statement_timeout=1min
eval "$(scripts/cluster.sh env "$cluster")"
if [ -n "${IDEM_PORTABLE:-}" ]; then install_portable template1; fi
# The servers' sockets and files, in a directory of the user that they run as.
export IDEM_SOCKETS=$PGHOST
mkdir -m 0711 "$IDEM_SOCKETS/examples"
if is_root; then chown postgres: "$IDEM_SOCKETS/examples"; fi

# A test that hangs is to fail. (Bats has a limit of its own, and when a test fails it waits until that is over.)
set -m
bats --tap --timing "${@:-tests/examples}" </dev/null &
child=$!
(sleep 1200 && kill -KILL -- "-$child") >/dev/null 2>&1 &
watchdog=$!
set +m
status=0
wait "$child" || status=$?
exit "$status"
