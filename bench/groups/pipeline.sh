# A hundred random keys claimed by one message: `idem_claim_many`, beside one INSERT ON CONFLICT of the same keys and `redis_pipeline`, a hundred SET NX EX in a
# pipeline (redis-benchmark -P 100), with appendfsync=always beside synchronous_commit=on. All are reached over TCP. A key that Redis has is no part of the
# transaction that it is for.
# shellcheck shell=bash

run_pipeline() {
    local PGHOST=127.0.0.1 load n
    for ((n = 1; n <= 100; n++)); do echo "\\set k$n random(1000000000000000000, 9000000000000000000)"; done >"$scratch/keys.sql"
    echo "SELECT count(*) FROM idem_claim_many(ARRAY[$(hundred_keys)]::text[]);" >"$scratch/idem_claim_many.sql"
    echo "INSERT INTO raw_keys (scope, key, expires_at) SELECT '', key, now() + interval '24 hours'
          FROM unnest(ARRAY[$(hundred_keys)]::text[]) AS key ON CONFLICT (scope, key) DO NOTHING RETURNING key;" >"$scratch/raw_unsorted.sql"
    start_redis always
    for load in '1 client, one processor' '8 clients'; do
        place "$load"
        alternate 'fresh claims/s, 100 a message' "$load" claimed_by_hundreds idem_claim_many raw_unsorted redis_pipeline
    done
    stop_redis
}

hundred_keys() { seq --separator=', ' --format=':k%.0f' 1 100; }

claimed_by_hundreds() {
    refill "$1"
    if [ "$1" = redis_pipeline ]; then
        "${on_processors[@]}" redis-benchmark -p "$redis_port" -a "$REDISCLI_AUTH" -q --csv -c "$clients" -P 100 -n 100000 -r 1000000000 \
            SET __rand_int__ 1 NX EX 86400 2>/dev/null | awk -F '"' '$4 ~ /^[0-9.]+$/ {print $4}'
    else
        awk -v rate="$(pgbench_tps "$scratch/keys.sql" "$scratch/$1.sql")" 'BEGIN {print 100 * rate}'
        expect_keys "$1" $((prefill + 100 * $(pgbench_transactions)))
    fi
}
