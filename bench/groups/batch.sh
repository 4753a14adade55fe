# Many keys in one call: all duplicates, half of them fresh, all fresh. Most are version 4 UUIDs in random order, and the tables hold a
# million others before (a quick run: 200,000). In a second and third run, with 200,000 keys before, they are UUIDs of version 7 and numbers
# that count up, given in that order; what is not fresh are neighbours then, as when a batch is delivered again. The raw statement gets
# the keys as they come, or sorts them first.
# shellcheck shell=bash

run_batch() {
    local preload=1000000 sizes=10,1000,10000,100000
    if [ -n "$QUICK" ]; then preload=200000 sizes=10,10000; fi
    batches_of random '' "$preload" "$sizes"
    batches_of uuid_v7 ', UUIDs of version 7' 200000 10000
    batches_of sequential ', sequential' 200000 10000
    sql -c 'TRUNCATE idem_keys, raw_keys_unsorted, raw_keys_sorted'
}

# batches_of ORDER SUFFIX PRELOAD SIZES
batches_of() {
    local kind size contender round rate
    sql -c 'TRUNCATE idem_keys, raw_keys, leanest_keys, orders, raw_keys_unsorted, raw_keys_sorted'
    "$drivers/idem-bench-batch" "$rounds" "$3" "$1" "$4" \
        idem_claim_many="$contenders/batch/idem_claim_many.sql" \
        raw_unsorted="$contenders/batch/raw_unsorted.sql" \
        raw_sorted="$contenders/batch/raw_sorted.sql" >"$scratch/batch.tsv"
    while IFS=$'\t' read -r kind size contender round rate; do
        sample "$kind keys/s" "$size keys a call$2" "$contender" "$round" "$rate"
    done <"$scratch/batch.tsv"
    progress "  $1"
}
