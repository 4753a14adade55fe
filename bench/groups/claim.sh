# One key claimed in one call, by all over loopback TCP. Fresh keys are random; a duplicate is one of those that are there. The careful
# ways of doing without idem: `raw_on_conflict`, an INSERT ON CONFLICT DO NOTHING; `plpgsql`, the same in a function of one's own;
# `advisory_lock`, a lock on a hash of the key, a SELECT, an INSERT; `merge`, PostgreSQL's MERGE, which raises 23505 where two claim at once; `redis`, SET NX EX, with appendfsync=always beside
# synchronous_commit=on, everysec beside off. `raw_leanest` has neither scope nor retention. `select_1` is the floor: a round trip that does
# nothing. For "one processor" see `place` in `bench/lib.sh`; it holds for Redis too.
# shellcheck shell=bash

claim_contenders=(idem_claim raw_on_conflict plpgsql advisory_lock merge redis)

run_claim() {
    local PGHOST=127.0.0.1 rounds=${ROUNDS:-3} run_seconds=${RUN_SECONDS:-0.3} load contender
    local loads=('1 client, one processor' '8 clients' '16 clients') loads_off=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients') loads_off=() run_seconds=${RUN_SECONDS:-0.2}; else claim_contenders+=(raw_leanest); fi
    sql -f "$contenders/claim/schema.sql"

    start_redis always
    fresh_at on "${loads[@]}"
    for contender in idem_claim raw_on_conflict raw_leanest redis; do refill "$contender"; done
    sql -c 'VACUUM (ANALYZE)'
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'duplicate claims/s' "$load" duplicate_claims "${claim_contenders[@]}" select_1
    done
    stop_redis

    start_redis everysec
    fresh_at off "${loads_off[@]}"
    stop_redis
    sql -c 'DROP FUNCTION claim_once, claim_under_lock'
}

# fresh_at SYNCHRONOUS_COMMIT LOAD...
fresh_at() {
    local commit=$1 load
    shift
    for load in "$@"; do
        place "$load"
        PGOPTIONS="-c synchronous_commit=$commit" \
            alternate "fresh claims/s, synchronous_commit=$commit" "$load" fresh_claims "${claim_contenders[@]}"
    done
}

fresh_claims() {
    refill "$1"
    claims "$1" fresh
}

duplicate_claims() { claims "$1" duplicate; }

# claims CONTENDER fresh|duplicate: only fresh ones leave keys behind.
claims() {
    local count
    if [ "$1" = redis ]; then
        redis_rate "$contenders/claim/redis.txt" "${2/duplicate/duplicate:$prefill}"
        count=$(redis_requests)
    else
        pgbench_tps "bench/keys/$2.sql" "$(contender_file claim "$1")"
        count=$(pgbench_transactions)
    fi
    if [ "$2" = duplicate ]; then count=0; fi
    expect_keys "$1" $((prefill + count))
}
