# One key claimed in one call. Fresh keys are random; a duplicate is one of those that are there. `select_1` is the floor: a round
# trip that does nothing. For "one processor" see `place` in `bench/lib.sh`.
# shellcheck shell=bash

claim_loads=('1 client' '1 client, one processor' '8 clients' '16 clients')
claim_contenders=(idem_claim raw_on_conflict raw_leanest)

run_claim() {
    local load
    if [ -n "$QUICK" ]; then claim_loads=('1 client, one processor' '8 clients'); fi
    fresh_at on "${claim_loads[@]}"
    fresh_at off '1 client, one processor' '8 clients'

    for contender in "${claim_contenders[@]}"; do refill "$contender"; done
    sql -c 'VACUUM (ANALYZE)'
    for load in "${claim_loads[@]}"; do
        place "$load"
        alternate 'duplicate claims/s' "$load" duplicate_claims "${claim_contenders[@]}" select_1
    done
}

# fresh_at SYNCHRONOUS_COMMIT LOAD...
fresh_at() {
    local commit=$1
    shift
    for load in "$@"; do
        place "$load"
        PGOPTIONS="-c synchronous_commit=$commit" \
            alternate "fresh claims/s, synchronous_commit=$commit" "$load" fresh_claims "${claim_contenders[@]}"
    done
}

fresh_claims() {
    refill "$1"
    pgbench_tps bench/keys/fresh.sql "bench/contenders/claim/$1.sql"
    expect_keys "$1" $((prefill + $(pgbench_transactions)))
}

duplicate_claims() {
    pgbench_tps bench/keys/duplicate.sql "$(contender_file claim "$1")"
    expect_keys "$1" "$prefill"
}
