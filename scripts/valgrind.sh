#!/usr/bin/env bash
# Runs the extension's pgTAP tests in a server under valgrind, and fails if an error involves idem. All reports
# are kept in build/valgrind. The whole suite takes the better part of an hour.
#
#   PG_CONFIG=… valgrind.sh [pgTAP file | isolation spec ...]
#
# PG_CONFIG should be that of a server built with USE_VALGRIND, which tells valgrind what its allocator does; without it, no
# error within a memory context's blocks is seen. scripts/valgrind-server.sh builds one, and puts PostgreSQL's suppressions
# where they are looked for; another place can be given in VALGRIND_SUPPRESSIONS.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/instrumented.sh

scripts/deps.sh valgrind
suppressions=${VALGRIND_SUPPRESSIONS:-$("$PG_CONFIG" --sharedir)/valgrind.supp}
[ -r "$suppressions" ] || {
    echo "valgrind.sh: PostgreSQL's own suppressions, src/tools/valgrind.supp, are not in \"$suppressions\"" >&2
    exit 1
}
"$PG_CONFIG" --cppflags | grep -e -DUSE_VALGRIND >/dev/null ||
    echo "valgrind.sh: $PG_CONFIG is of a server built without USE_VALGRIND: within memory contexts, no error is seen" >&2

prepare valgrind
if [ $# -eq 0 ]; then set -- tests/pgtap/*/*.sql; fi
select_tests "$@"
# shellcheck disable=SC2119  # not a matter of tests
build_extension

# The server would not see them there.
install --mode=644 "$suppressions" "$work/valgrind.supp"
start_server "valgrind --quiet --trace-children=no --leak-check=no --error-limit=no --num-callers=25 --gen-suppressions=all \
--suppressions=$work/valgrind.supp --log-file=$reports/%p" statement_timeout=1h autovacuum=off

status=0
# A test that fails here and nowhere else is one that looks at the clock: a lease of some milliseconds is soon over.
run_pgtap "${files[@]}" || echo 'valgrind.sh: tests failed, which is not counted' >&2
run_isolation "${specs[@]}" || echo 'valgrind.sh: tests failed, which is not counted' >&2
stop_server || status=1
compgen -G "$reports/*" >/dev/null || {
    echo "valgrind.sh: no process wrote a report, not even an empty one" >&2
    exit 1
}
find "$reports" -type f -empty -delete
# PostgreSQL is C.
ours=$(grep -lE '\.[ch]pp:[0-9]+\)|idem\.so' "$reports"/* 2>/dev/null || true)
if [ -n "$ours" ]; then
    # shellcheck disable=SC2086  # the names have no spaces
    head -n 60 $ours
    status=1
fi
echo "valgrind.sh: $(find "$reports" -type f | wc -l) processes with errors, $(wc -w <<<"$ours") of them with errors in idem; see $kept/reports"
exit "$status"
