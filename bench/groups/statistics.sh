# What counting costs (`idem_stats`): the same claims with `idem.track_stats` on and off, by turns, on one preloaded server without the
# commit's flush, which would hide it. The instructions are in the table below.
# shellcheck shell=bash

run_statistics() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('1 client, one processor'); fi
    place "${loads[0]}"
    alternate 'fresh claims/s, synchronous_commit=off' "${loads[0]}" fresh_claims_counted counters_on counters_off
    refill idem_claim
    sql -c 'VACUUM (ANALYZE)'
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'duplicate claims/s' "$load" duplicate_claims_counted counters_on counters_off
    done
}

# claims_counted CONTENDER KEYS
claims_counted() {
    PGOPTIONS="-c synchronous_commit=off -c idem.track_stats=${1#counters_}" pgbench_tps "bench/keys/$2.sql" "$contenders/claim/idem_claim.sql"
}

fresh_claims_counted() {
    local before counted
    refill idem_claim
    before=$(claims_in_stats)
    claims_counted "$1" fresh
    expect_keys idem_claim $((prefill + $(pgbench_transactions)))
    counted=$(($(claims_in_stats) - before))
    case $1 in
        counters_on) [ "$counted" -eq "$(pgbench_transactions)" ] || die "$counted claims were counted of $(pgbench_transactions)" ;;
        counters_off) [ "$counted" -eq 0 ] || die "claims were counted with idem.track_stats off" ;;
    esac
}

duplicate_claims_counted() { claims_counted "$1" duplicate; }

claims_in_stats() { sql -c 'SELECT coalesce(sum(acquired), 0) FROM idem_stats'; }
