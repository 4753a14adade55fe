# A whole request: claim, business row, stored response, fsync on. The network is simulated by a proxy that holds every message
# back for the time given (`bench/delay.cpp`).
# shellcheck shell=bash

request_contenders=(idem_execute hand_written plpgsql)

run_request() {
    local load loads=('1 client' '1 client, one processor' '16 clients')
    if [ -n "$QUICK" ]; then loads=('1 client, one processor' '16 clients'); fi
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'requests/s' "local socket, $load" requests "${request_contenders[@]}" idem_begin_complete
    done
    over_network 500 '0.5 ms each way'
    if [ -z "$QUICK" ]; then over_network 250 '0.5 ms round trip'; fi
}

# over_network MICROSECONDS_EACH_WAY NAME
over_network() {
    local PGHOST=$PGHOST proxy
    place '1 client'
    start_proxy "$1"
    alternate 'ms for SELECT 1, to check the simulated network' "$2" round_trip_ms select_1
    alternate 'requests/s' "$2, 1 client" requests "${request_contenders[@]}"
    kill "$proxy"
    wait "$proxy" 2>/dev/null || true
}

round_trip_ms() {
    pgbench_tps bench/contenders/select_1.sql | awk '{printf "%.3f\n", 1000 / $1}'
}

requests() {
    refill "$1"
    sql -c 'TRUNCATE orders'
    pgbench_tps bench/keys/fresh.sql bench/keys/order.sql "bench/contenders/request/$1.sql"
    expect_keys "$1" $((prefill + $(pgbench_transactions)))
    [ "$(sql -c 'SELECT count(*) FROM orders')" -eq "$(pgbench_transactions)" ] || die "$1 did not insert an order per request"
}
