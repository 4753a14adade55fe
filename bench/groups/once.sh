# Whole requests by the C++ client (`client/`), fsync on: `once` runs the order's INSERT in a callable, `once_statement` gives it to the server.
# `by_hand` is the transaction that a careful engineer writes with libpqxx, every statement prepared (`bench/once.cpp`). Duplicates are requests that
# were done before, `prepared_select` the least that could answer one. Runs are half a second (a quick run: 0.3 s).
# shellcheck shell=bash

run_once() {
    local threads loads=(1 16) seconds=0.5
    if [ -n "$QUICK" ]; then loads=(16) seconds=0.3; fi
    seconds=${RUN_SECONDS:-$seconds}
    place "$cores clients"
    for threads in "${loads[@]}"; do
        once_case fresh "$threads" "$threads thread$([ "$threads" = 1 ] || echo s)"
        once_case duplicate "$threads" "$threads thread$([ "$threads" = 1 ] || echo s)"
    done
    local PGHOST=$PGHOST proxy
    start_proxy 500
    once_case fresh 1 '1 thread, 0.5 ms each way'
    once_case duplicate 1 '1 thread, 0.5 ms each way'
    stop_child "$proxy"
}

# once_case fresh|duplicate THREADS NAME
once_case() {
    local contender round rate p99
    sql -c 'TRUNCATE idem_keys, raw_keys, orders'
    "$drivers/idem-bench-once" "$1" "$rounds" "$seconds" "$2" >"$scratch/once.tsv"
    while IFS=$'\t' read -r contender round rate p99; do
        sample "$1 requests/s" "$3" "$contender" "$round" "$rate"
        sample "$1 requests, p99 in µs" "$3" "$contender" "$round" "$p99"
    done <"$scratch/once.tsv"
    progress "  $1, $3"
}
