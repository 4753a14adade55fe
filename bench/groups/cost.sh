# What a call costs the server beside time: WAL, buffers, space. Each is counted over thousands of calls of one session, once.
# shellcheck shell=bash

run_cost() {
    local calls=5000 contender rounds=1
    for contender in idem_claim raw_on_conflict raw_leanest; do
        refill "$contender"
        cost_of 'fresh claim' "$contender" bench/keys/fresh.sql "$contenders/claim/$contender.sql"
        sample 'bytes per key, table and index' "$((prefill + calls)) keys" "$contender" 1 "$(bytes_per_key "$contender")"
        cost_of 'duplicate claim' "$contender" bench/keys/duplicate.sql "$contenders/claim/$contender.sql"
    done
    for contender in idem_execute hand_written plpgsql; do
        refill "$contender"
        cost_of 'request' "$contender" bench/keys/fresh.sql bench/keys/order.sql "$contenders/request/$contender.sql"
    done
    progress "  WAL, buffers, space"
}

# cost_of CASE CONTENDER FILE...
cost_of() {
    local case=$1 contender=$2 before after
    shift 2
    before=$(counters)
    PGOPTIONS='-c synchronous_commit=off' pgbench_calls "$calls" "$@"
    after=$(counters)
    sample 'WAL bytes per call' "$case" "$contender" 1 "$(per_call "${before% *}" "${after% *}")"
    sample 'buffers touched per call' "$case" "$contender" 1 "$(per_call "${before#* }" "${after#* }")"
}

# WAL position and buffers touched. The pause: a session reports its statistics when it has ended.
counters() {
    sleep 0.3
    sql --field-separator=' ' -c "SELECT pg_current_wal_insert_lsn() - '0/0',
        sum(coalesce(heap_blks_hit, 0) + coalesce(heap_blks_read, 0) + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0)
            + coalesce(toast_blks_hit, 0) + coalesce(toast_blks_read, 0) + coalesce(tidx_blks_hit, 0) + coalesce(tidx_blks_read, 0))
        FROM pg_statio_all_tables"
}

per_call() { awk -v before="$1" -v after="$2" -v calls="$calls" 'BEGIN {printf "%.2f\n", (after - before) / calls}'; }

bytes_per_key() {
    local table
    table=$(keys_table "$1")
    sql -c "SELECT round(pg_total_relation_size('$table')::numeric / count(*), 1) FROM $table"
}
