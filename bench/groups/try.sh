# What a caller waits while another transaction holds its key for 200 ms: eight clients ask for it again and again.
# shellcheck shell=bash

run_try() {
    local claim=$contenders/claim contender round p99 maximum calls
    "$drivers/idem-bench-try" "$rounds" 8 200 \
        "idem_try_claim=$claim/idem_claim.sql,$contenders/try/idem_try_claim.sql" \
        "raw_on_conflict=$claim/raw_on_conflict.sql,$claim/raw_on_conflict.sql" >"$scratch/try.tsv"
    while IFS=$'\t' read -r contender round p99 maximum calls; do
        sample 'ms until answered' p99 "$contender" "$round" "$p99"
        sample 'ms until answered' maximum "$contender" "$round" "$maximum"
        sample 'calls answered' 'in five holds of 200 ms' "$contender" "$round" "$calls"
    done <"$scratch/try.tsv"
}
