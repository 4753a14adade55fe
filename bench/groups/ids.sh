# One id a call, and a million in one statement: numbers against a sequence of the default kind (without a cache per session), UUIDs of
# version 7 against random ones.
# shellcheck shell=bash

run_ids() {
    local maker rounds=$rounds
    if [ -n "$QUICK" ]; then rounds=${ROUNDS:-2}; fi
    sql -c 'DROP SEQUENCE IF EXISTS plain_ids' -c 'CREATE SEQUENCE plain_ids'
    for maker in idem_next_id idem_uuid_v7; do
        expect 100000 "different ids of $maker" "SELECT count(DISTINCT $maker()) FROM generate_series(1, 100000)"
    done
    place '8 clients'
    alternate 'ids/s, one a call' '8 clients' single_ids idem_next_id nextval select_1
    alternate 'UUIDs/s, one a call' '8 clients' single_ids idem_uuid_v7 gen_random_uuid
    if [ -z "$QUICK" ]; then
        place '1 client, one processor'
        alternate 'ids/s, 1 M in one statement' '1 client, one processor' many_ids idem_next_id nextval
        alternate 'UUIDs/s, 1 M in one statement' '1 client, one processor' many_ids idem_uuid_v7 gen_random_uuid
    fi
    sql -c 'DROP SEQUENCE plain_ids'
}

single_ids() { pgbench_tps "$(contender_file ids "$1")"; }

# Three statements: a run by the clock would end with one that outlasts it.
many_ids() {
    pgbench_calls 3 "$contenders/ids/${1}_many.sql"
    awk '/^tps = / {printf "%.0f\n", $3 * 1000000}' "$scratch/pgbench.out"
}
