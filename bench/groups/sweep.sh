# Every other key of the table has expired: 250,000 of half a million (a quick run: 100,000 of 200,000; `SWEEP=5000000`: so many of twice as
# many). `idem_sweep` deletes them in batches, `one_delete` is a single DELETE of the same rows; both are one statement of one session, on a
# table that was vacuumed, after a checkpoint. First alone, with the WAL they write; then while 8 clients claim fresh keys. A claim's time is
# that of its transaction, commit included; p99 "beside" are those that ended during the deletion, "alone" those of the second before it,
# in the same run. `idem_sweep_gently` is what the background worker does: batches of 200 rows with 2 ms in between.
# shellcheck shell=bash

run_sweep() {
    local keys=500000 case sweep_rounds=${ROUNDS:-3}
    if [ -n "$QUICK" ]; then keys=200000; fi
    if [ -n "${SWEEP:-}" ]; then keys=$((2 * SWEEP)); fi
    place '8 clients'
    case=alone
    sweep_in_turns deletion_alone idem_sweep one_delete
    progress "  $((keys / 2)) of $keys, $case"
    case='beside 8 claiming clients'
    sweep_in_turns deletion_beside_claims idem_sweep idem_sweep_gently one_delete
    progress "  $((keys / 2)) of $keys, $case"
    sql -c 'TRUNCATE idem_keys'
}

# sweep_in_turns FUNCTION CONTENDER...: the function gets the round and the contender, and makes its samples itself, as one deletion
# gives several.
sweep_in_turns() {
    local round contender function=$1
    shift
    for ((round = 1; round <= sweep_rounds; round++)); do
        for contender in "$@"; do
            sql -v keys="$keys" -f "$contenders/sweep/fill.sql"
            "$function" "$round" "$contender"
            expect 0 'expired keys' "SELECT count(*) FROM idem_keys WHERE expires_at <= now()"
        done
    done
}

deletion_alone() {
    local wal rate
    wal=$(wal_bytes)
    rate=$(deletion_rate "$2")
    sample 'rows deleted/s' "$case" "$2" "$1" "$rate"
    sample 'WAL bytes per row deleted' "$case" "$2" "$1" "$(awk -v a="$wal" -v b="$(wal_bytes)" -v n="$keys" 'BEGIN {printf "%.1f\n", (b - a) / (n / 2)}')"
}

deletion_beside_claims() {
    local claims=$scratch/sweep_claims start middle end rate pgbench
    mkdir -p "$claims"
    cat bench/keys/fresh.sql "$contenders/claim/idem_claim.sql" >"$claims/claim.sql"
    "${on_processors[@]}" "$bindir/pgbench" --no-vacuum --protocol=prepared --client=8 --jobs="$cores" --time=600 --file="$claims/claim.sql" \
        --log --log-prefix="$claims/log" >"$claims/pgbench.out" 2>&1 &
    pgbench=$!
    children+=("$pgbench")
    sleep 0.5
    start=$EPOCHREALTIME
    sleep 1
    middle=$EPOCHREALTIME
    rate=$(deletion_rate "$2")
    end=$EPOCHREALTIME
    kill "$pgbench" 2>/dev/null || { cat "$claims/pgbench.out" >&2; die 'the claims failed'; }
    wait "$pgbench" 2>/dev/null || true
    sample 'rows deleted/s' "$case" "$2" "$1" "$rate"
    sample 'ms until a claim is committed, p99' "$2" beside "$1" "$(claims_p99 "$middle" "$end")"
    sample 'ms until a claim is committed, p99' "$2" alone "$1" "$(claims_p99 "$start" "$middle")"
    rm -r "$claims"
}

wal_bytes() { sql -c "SELECT pg_current_wal_insert_lsn() - '0/0'"; }

# deletion_rate CONTENDER: deletes; the time is the statement's, without psql's start.
deletion_rate() {
    sql -c '\timing on' -f "$contenders/sweep/$1.sql" 2>/dev/null |
        awk -v n="$keys" '/^Time: / {ms = $2; printf "%.0f\n", n / 2 / (ms / 1000)} END {exit !ms}'
}

# Of the transactions that ended between the two times.
claims_p99() {
    awk -v start="$1" -v end="$2" '{at = $5 + $6 / 1e6} at >= start && at < end {print $3}' "$claims"/log.* | sort --numeric-sort |
        awk '{times[NR] = $1} END {printf "%.3f\n", times[int(NR * 0.99)] / 1000}'
}
