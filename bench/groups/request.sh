# A whole request: claim, business row, stored response, fsync on; and the same request once more, which is answered with what is stored. All
# go over loopback TCP. `hand_written` and `plpgsql` keep their keys in a table; `redis_and_postgresql` keeps them in Redis
# (SET NX, the INSERT, SET of the response, appendfsync=always; `bench/redis.cpp`). The network is simulated by proxies that hold every
# message back for the time given (`bench/delay.cpp`); they also count the round trips.
# shellcheck shell=bash

request_contenders=(idem_execute idem_begin_complete hand_written plpgsql redis_and_postgresql)

run_request() {
    local PGHOST=127.0.0.1 rounds=${ROUNDS:-3} run_seconds=${RUN_SECONDS:-0.4} kind load loads=('1 client, one processor' '16 clients')
    if [ -n "$QUICK" ]; then loads=('16 clients') rounds=${ROUNDS:-2} run_seconds=${RUN_SECONDS:-0.2}; fi
    start_redis always
    for kind in fresh replayed; do
        prepare_requests
        rounds=1 alternate 'round trips per request' "$kind" round_trips "${request_contenders[@]}"
        for load in "${loads[@]}"; do
            place "$load"
            alternate "$kind requests/s" "loopback, $load" requests "${request_contenders[@]}"
        done
        place '1 client'
        over_network 500 '0.5 ms each way'
    done
    stop_redis
}

# over_network MICROSECONDS_EACH_WAY NAME
over_network() {
    local PGHOST=$PGHOST REDIS=$REDIS proxy redis_proxy
    start_proxies "$1"
    if [ "$kind" = fresh ]; then
        rounds=1 alternate 'ms for SELECT 1, to check the simulated network' "$2" round_trip_ms select_1
    fi
    alternate "$kind requests/s" "$2, 1 client" requests "${request_contenders[@]}"
    stop_proxies
}

start_proxies() {
    start_proxy "$1"
    start_redis_proxy "$1"
}

# Sets `seen`, the round trips of both.
stop_proxies() {
    stop_child "$proxy"
    stop_child "$redis_proxy"
    seen=$(($(cat "$PGHOST/.s.PGSQL.$PGPORT.trips") + $(cat "$REDIS.trips")))
}

round_trip_ms() {
    pgbench_tps "$contenders/shared/select_1.sql" | awk '{printf "%.3f\n", 1000 / $1}'
}

# Before replays all keys are there, with a response; they stay as they are.
prepare_requests() {
    if [ "$kind" = fresh ]; then return; fi
    refill_with_responses
    sql -c 'SELECT unnest(keys) FROM prefill_chunks' | redis_fill '[{"id":4711}]'
}

requests() {
    local new
    if [ "$kind" = fresh ]; then refill "$1"; fi
    sql -c 'TRUNCATE orders'
    send_requests "$1"
    if [ "$kind" = fresh ]; then new=$sent; else new=0; fi
    expect_keys "$1" $((prefill + new))
    expect "$new" "orders by $1" 'SELECT count(*) FROM orders'
}

# Prints the rate and sets `sent`.
send_requests() {
    case $kind,$1 in
        fresh,redis*) redis_rate "$contenders/request/$1.txt" fresh ;;
        *,redis*) redis_rate "$contenders/request/$1.txt" "duplicate:$prefill" ;;
        fresh,*) pgbench_tps bench/keys/fresh.sql bench/keys/order.sql "$contenders/request/$1.sql" ;;
        *) pgbench_tps bench/keys/duplicate.sql bench/keys/order.sql "$contenders/request/$1.sql" ;;
    esac
    if [[ $1 == redis* ]]; then sent=$(redis_requests); else sent=$(pgbench_transactions); fi
}

# What one run needs more than another, for so many more requests: connections need round trips too. Longer runs where the disk is too
# slow for two short ones to differ.
round_trips() {
    local clients=1 run_seconds sent seen sent_before='' seen_before=''
    for run_seconds in 0.05 0.2 0.8 3.2; do
        requests_through_proxies "$1"
        if [ "${sent_before:-$sent}" -ne "$sent" ]; then
            awk -v trips=$((seen - seen_before)) -v requests=$((sent - sent_before)) 'BEGIN {print trips / requests}'
            return
        fi
        sent_before=$sent seen_before=$seen
    done
    die "$1 answered as many requests in one run as in another"
}

requests_through_proxies() {
    local PGHOST=$PGHOST REDIS=$REDIS proxy redis_proxy
    start_proxies 0
    send_requests "$1" >/dev/null
    stop_proxies
}
