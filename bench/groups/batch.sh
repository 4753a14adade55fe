# Many keys, version 4 UUIDs in random order, in one call; the tables hold a million others before (a quick run: 200,000). The raw
# statement gets the keys as they come, or sorts them first.
# shellcheck shell=bash

run_batch() {
    local preload=1000000 sizes=10,1000,10000,100000
    if [ -n "$QUICK" ]; then preload=200000 sizes=1000,10000; fi
    sql -c 'TRUNCATE idem_keys, raw_keys, leanest_keys, orders, raw_keys_unsorted, raw_keys_sorted'
    "$drivers/idem-bench-batch" "$rounds" "$preload" "$sizes" \
        idem_claim_many=bench/contenders/batch/idem_claim_many.sql \
        raw_unsorted=bench/contenders/batch/raw_unsorted.sql \
        raw_sorted=bench/contenders/batch/raw_sorted.sql >"$scratch/batch.tsv"
    local kind size contender round rate
    while IFS=$'\t' read -r kind size contender round rate; do
        sample "$kind keys/s" "$size keys a call" "$contender" "$round" "$rate"
    done <"$scratch/batch.tsv"
    sql -c 'TRUNCATE idem_keys, raw_keys_unsorted, raw_keys_sorted'
}
