# A lock taken and freed, one call and one commit each; the figures are pairs. Each of 50,000 locks comes in turn, so that nobody
# waits for anybody; all were taken and freed once before. `hand_written` are the two UPDATEs of a lease lock by hand.
#
# `redis` does the same in two round trips as well, beside PostgreSQL over loopback TCP: SET NX PX with a nonce, then the
# compare-and-delete as a script that is loaded already (EVALSHA). With appendfsync=always it answers when the change is on
# disk, as synchronous_commit=on does; with everysec it may lose a second, as synchronous_commit=off may lose less. It gives no
# fence, and no transaction can rest on it. Its clients are `bench/redis.cpp`, with as many threads as pgbench has.
# shellcheck shell=bash

run_locks() {
    local rows=50000
    sql -c 'DROP TABLE IF EXISTS leases' -f "$contenders/locks/schema.sql"
    flow_at_all_loads locks 'locked and freed/s' lock_pairs idem_lock hand_written
    place '8 clients'
    beside_redis on always
    beside_redis off everysec
    sql -c 'TRUNCATE idem_locks' -c 'DROP TABLE leases'
}

# beside_redis SYNCHRONOUS_COMMIT APPENDFSYNC
beside_redis() {
    local PGHOST=127.0.0.1
    start_redis "$2"
    PGOPTIONS="-c synchronous_commit=$1" alternate "locked and freed/s, synchronous_commit=$1 and appendfsync=$2" \
        "$clients clients" lock_pairs idem_lock redis
    stop_redis
}

lock_pairs() {
    local before table=leases
    if [ "$1" = redis ]; then
        redis_rate "$contenders/locks/redis.txt" rows:$rows
        return
    fi
    if [ "$1" = idem_lock ]; then table=idem_locks; fi
    refill_locks "$table"
    # The refilling session's counts come late.
    sleep 0.3
    before=$(rows_updated "$table")
    pgbench_tps bench/keys/row.sql "$contenders/locks/$1.sql"
    expect $((before + 2 * $(pgbench_transactions))) "updated rows of $table" "SELECT $(updates_of "$table")"
}

# Every lock was taken and freed once.
refill_locks() {
    if [ "$1" = idem_locks ]; then
        sql -c 'TRUNCATE idem_locks' \
            -c "SELECT count(*) FROM generate_series(1, $rows) AS id WHERE NOT idem_unlock(id::text, idem_lock(id::text, '30 s'))" >/dev/null
    else
        sql -c 'TRUNCATE leases' -c "INSERT INTO leases (name, fence, held_until)
            SELECT id, 1, now() + interval '30 s' FROM generate_series(1, $rows) AS id" -c 'UPDATE leases SET held_until = NULL'
    fi
}
