# How long a lock that was freed lies about before the next of those who wait for it has it: from just before the holder sends its unlock
# until the next one has its answer, commits included (fsync on; Redis with appendfsync=always). One holds the lock for 2 ms, and as
# many others as the case says wait all the while (`bench/handover.cpp`). `idem_lock` and `pg_advisory_lock` wait in the server; the
# others ask again every 10 or 100 ms. The more there are who ask, the sooner one of them comes by; who that is is chance. A lock that
# outlives its session has to be written: two commits are flushed for `idem_lock` and by hand. `idem_lock_unflushed` has
# synchronous_commit=off and shows what is left without that; `pg_advisory_lock` writes nothing.
# shellcheck shell=bash

run_handover() {
    local PGHOST=127.0.0.1 handover_rounds=${ROUNDS:-3} run_ms=700 case waiters contender round p50 p99 maximum
    if [ -n "$QUICK" ]; then handover_rounds=${ROUNDS:-1} run_ms=300; fi
    if [ ! -x "$drivers/idem-bench-handover" ]; then
        progress '  there is no Redis or no hiredis: skipped'
        return
    fi
    place '8 clients'
    sql -c 'DROP TABLE IF EXISTS leases' -f "$contenders/locks/schema.sql" \
        -c "INSERT INTO leases (name) SELECT 'relay' UNION ALL SELECT 'relay-' || id FROM generate_series(0, 32) AS id"
    start_redis always
    "$drivers/idem-bench-handover" "$handover_rounds" "$run_ms" 1,8,32 \
        idem_lock="$contenders/handover/idem_lock.sql" \
        idem_lock_unflushed="$contenders/handover/idem_lock_unflushed.sql" \
        pg_advisory_lock="$contenders/handover/pg_advisory_lock.sql" \
        hand_written_every_10_ms="$contenders/handover/hand_written.sql",10 \
        hand_written_every_100_ms="$contenders/handover/hand_written.sql",100 \
        redis_every_10_ms="redis:$REDIS,10" >"$scratch/handover.tsv"
    stop_redis
    while IFS=$'\t' read -r waiters contender round p50 p99 maximum; do
        case="$waiters waiter$([ "$waiters" = 1 ] || echo s)"
        sample 'ms from unlock to next holder, p50' "$case" "$contender" "$round" "$p50"
        sample 'ms from unlock to next holder, p99' "$case" "$contender" "$round" "$p99"
        sample 'ms from unlock to next holder, maximum' "$case" "$contender" "$round" "$maximum"
    done <"$scratch/handover.tsv"
    sql -c 'TRUNCATE idem_locks' -c 'DROP TABLE leases'
}
