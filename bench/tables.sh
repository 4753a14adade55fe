# The tables of the row flows: which contender works on which, and how each run starts from the same rows. Sourced.
# shellcheck shell=bash

stock_table() {
    case $1 in
        optimistic_update | *_guarded) echo guarded_stock ;;
        *) echo plain_stock ;;
    esac
}

jobs_table() {
    case $1 in
        *_plain | hand_written) echo plain_jobs ;;
        *_logged) echo logged_jobs ;;
        *) echo guarded_jobs ;;
    esac
}

# refill_stock CONTENDER
refill_stock() {
    local table
    table=$(stock_table "$1")
    sql -c "TRUNCATE $table" -c "INSERT INTO $table (id, name, price, quantity)
        SELECT id, 'product ' || id, id % 10000 / 100.0, 100 FROM generate_series(1, $rows) AS id"
}

# refill_jobs CONTENDER: without triggers, for the insertion of all rows is not what is measured.
refill_jobs() {
    local table
    table=$(jobs_table "$1")
    sql -c "TRUNCATE $table, idem_transition_log" -c 'SET session_replication_role = replica' \
        -c "INSERT INTO $table (id, payload) SELECT id, 'job ' || id FROM generate_series(1, $rows) AS id"
}

refill_redemptions() {
    sql -c 'TRUNCATE redemptions' -c 'INSERT INTO redemptions (code, customer_id)
        SELECT key, 1 FROM prefill_chunks, unnest(keys) AS key'
}
