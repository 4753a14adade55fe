# 64 clients make one and the same request at once; whoever is first takes a second over it (a quick run: 0.3 s), the others want its
# response. Looked at is what a duplicate still waits once the first of all 64 has heard of the commit, and its whole time.
# `idem_begin` with `wait => '10 min'`, `raw_on_conflict` and `plpgsql` wait for the transaction that has the key, `advisory_lock` queues up,
# one after the other.
# `idem_execute` never waits and is asked again every 10 ms; `redis_polling` is SET NX, the order in PostgreSQL, SET of the response, and GET
# every 10 ms (`bench/storm_contenders.hpp`). All go over loopback TCP, fsync on.
# shellcheck shell=bash

run_storm() {
    local PGHOST=127.0.0.1 clients=64 seconds=1 contender round times rest i parts=(p50 p99 maximum)
    # A round has 63 waits.
    local rounds=${ROUNDS:-3}
    if [ -n "$QUICK" ]; then seconds=0.3 rounds=${ROUNDS:-2}; fi
    place "$clients clients"
    sql -f "$contenders/storm/schema.sql" -c 'TRUNCATE idem_keys, raw_keys, orders'
    start_redis always
    "$drivers/idem-bench-storm" "$REDIS" "$rounds" "$clients" "$seconds" >"$scratch/storm.tsv" || die 'the storm failed'
    stop_redis
    expect $(($(wc -l <"$scratch/storm.tsv") * (clients + 1))) orders 'SELECT count(*) FROM orders'
    while IFS=$'\t' read -r contender round rest; do
        read -r -a times <<<"$rest"
        for i in 0 1 2; do
            sample 'ms until a duplicate is answered, from the commit on' "${parts[i]}" "$contender" "$round" "${times[i]}"
            sample 'ms until a duplicate is answered, in all' "${parts[i]}" "$contender" "$round" "${times[i + 3]}"
        done
    done <"$scratch/storm.tsv"
    sql -c 'TRUNCATE idem_keys, raw_keys, orders' -c 'DROP FUNCTION place_order_slowly'
}
