#!/usr/bin/env bash
# Runs the pgTAP and isolation tests on a server that checks its assertions, which no package has. It is built from Debian's source package
# once, and kept in /var/tmp. Prints TAP.
#
#   asserts.sh [pgTAP file | isolation spec ...]
#
# PG_CONFIG may name another server that was built with --enable-cassert.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/instrumented.sh

# Sets PG_CONFIG. 69: the source package cannot be fetched.
build_server() {
    local home
    home=/var/tmp/idem-assert-server-$(id -u)-$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    [ -e "$home/ready" ] || { scripts/valgrind-server.sh --asserts "$home" && touch "$home/ready"; } || return
    PG_CONFIG=$home/pgsql/bin/pg_config
}

mkdir -p build/asserts
if ! "$PG_CONFIG" --configure | grep --quiet -e --enable-cassert; then
    status=0
    build_server >build/asserts/server.build.log 2>&1 || status=$?
    case $status in
        0) ;;
        69) echo "1..0 # SKIP PostgreSQL's source package cannot be fetched"; exit ;;
        *) tail -n 40 build/asserts/server.build.log >&2; exit 1 ;;
    esac
fi

prepare asserts
select_tests "$@"
# shellcheck disable=SC2119  # not a matter of tests
build_extension >&2
start_server env statement_timeout=5min
failed=0
run_pgtap --verbose "${files[@]}" || failed=1
if [ ${#specs[@]} -gt 0 ]; then
    if run_isolation "${specs[@]}" >"$kept/isolation.log" 2>&1; then echo 'ok - isolation specs'; else echo 'not ok - isolation specs'; failed=1; fi
fi
if stop_server && ! grep --line-number TRAP: "/tmp/idem-$(id -u)/$cluster/server.log"; then
    echo 'ok - no assertion failed'
else
    echo 'not ok - no assertion failed'
    failed=1
fi
exit "$failed"
