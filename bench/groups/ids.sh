# One id a call, and a million in one statement, against a sequence of the default kind (without a cache per session).
# shellcheck shell=bash

run_ids() {
    sql -c 'DROP SEQUENCE IF EXISTS plain_ids' -c 'CREATE SEQUENCE plain_ids'
    expect 100000 'different ids' 'SELECT count(DISTINCT idem_next_id()) FROM generate_series(1, 100000)'
    place '8 clients'
    alternate 'ids/s, one a call' '8 clients' single_ids idem_next_id nextval select_1
    place '1 client, one processor'
    alternate 'ids/s, 1 M in one statement' '1 client, one processor' many_ids idem_next_id nextval
    sql -c 'DROP SEQUENCE plain_ids'
}

single_ids() { pgbench_tps "$(contender_file ids "$1")"; }

many_ids() { pgbench_tps "bench/contenders/ids/${1}_many.sql" | awk '{printf "%.0f\n", $1 * 1000000}'; }
