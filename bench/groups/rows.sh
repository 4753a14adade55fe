# One row changed, locked or inserted in one call, against the prepared statement by hand that tells its caller the same. Rows are
# picked at random of 40,000, so that nobody waits for anybody: this is what a call costs, not what contention costs. Only
# `optimistic_update` needs a trigger on its table; `hand_written` does without, `hand_written_guarded` runs into it. A duplicate is
# answered with the row that is there; `on_conflict` alone does not give it. For "one processor" see `place` in `bench/lib.sh`.
# shellcheck shell=bash

run_rows() {
    local beside=(hand_written hand_written_guarded)
    if [ -n "$QUICK" ]; then beside=(hand_written); fi
    sql -f "$contenders/shared/rows_schema.sql" >/dev/null
    flow_at_all_loads optimistic 'optimistic updates/s' row_changes optimistic_update "${beside[@]}"
    flow_at_all_loads conditional 'conditional adjustments/s' row_changes conditional_adjust hand_written
    flow_at_all_loads pessimistic 'row locks/s' row_changes pessimistic_lock hand_written
    flow_at_all_loads unique 'fresh unique inserts/s' unique_inserts unique_insert on_conflict

    # Nothing is written: what counts is what a call costs.
    refill_redemptions
    sql -c 'VACUUM (ANALYZE) redemptions'
    place '1 client, one processor'
    alternate 'duplicate unique inserts/s' '1 client, one processor' duplicate_inserts unique_insert on_conflict_or_select on_conflict
    sql -c 'TRUNCATE plain_stock, guarded_stock, redemptions'
}

row_changes() {
    refill_stock "$1"
    pgbench_tps bench/keys/row.sql "$contenders/$flow/$1.sql"
    "expect_$flow" "$(stock_table "$1")" "$(pgbench_transactions)"
}

unique_inserts() {
    refill_redemptions
    pgbench_tps bench/keys/fresh.sql bench/keys/order.sql "$contenders/unique/$1.sql"
    expect $((prefill + $(pgbench_transactions))) redemptions 'SELECT count(*) FROM redemptions'
}

duplicate_inserts() {
    pgbench_tps bench/keys/duplicate.sql bench/keys/order.sql "$contenders/unique/$1.sql"
    expect "$prefill" redemptions 'SELECT count(*) FROM redemptions'
}

expect_optimistic() { expect "$2" "versions in $1" "SELECT sum(version - 1) FROM $1"; }

expect_conditional() { expect "$2" "units out of $1" "SELECT sum(100 - quantity) FROM $1"; }

# Nothing tells afterwards how many rows were locked.
expect_pessimistic() { :; }
