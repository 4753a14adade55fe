# Messages published, one a transaction, against an INSERT into a table of the same columns and index; with NOTIFY, against the same INSERT
# and a pg_notify. Then batches of 100 taken and acknowledged, two transactions each, against a queue by hand: an UPDATE of the rows that
# SKIP LOCKED finds free, and a DELETE. Keys are all different, so that both may give out what is next; the queue by hand keeps no
# order for those that are not.
# shellcheck shell=bash

run_outbox() {
    local load
    sql -c 'DROP TABLE IF EXISTS raw_outbox, raw_queue' -f bench/contenders/outbox/schema.sql
    for load in '1 client, one processor' '8 clients'; do
        place "$load"
        PGOPTIONS='-c idem.outbox_notify=off' alternate 'published/s' "$load" published idem_publish insert
        PGOPTIONS='-c idem.outbox_notify=on' alternate 'published/s, with NOTIFY' "$load" published idem_publish insert_notify
        alternate 'batches of 100 taken and acknowledged/s' "$load" taken idem_outbox_take skip_locked
    done
    sql -c 'TRUNCATE idem_outbox, idem_outbox_leases' -c 'DROP TABLE raw_outbox, raw_queue'
}

published() {
    local table=raw_outbox
    if [ "$1" = idem_publish ]; then table=idem_outbox; fi
    sql -c "TRUNCATE $table"
    pgbench_tps "bench/contenders/outbox/$1.sql"
    expect "$(pgbench_transactions)" "messages in $table" "SELECT count(*) FROM $table"
}

# More than can be taken in a run.
taken() {
    local messages=100000 table=raw_queue
    sql -c 'TRUNCATE raw_queue, idem_outbox, idem_outbox_leases'
    if [ "$1" = idem_outbox_take ]; then
        table=idem_outbox
        sql -c "SELECT count(idem_publish('orders', '{\"order\": 17, \"state\": \"paid\"}', 'order ' || i)) FROM generate_series(1, $messages) i" >/dev/null
    else
        sql -c "INSERT INTO raw_queue (topic, payload, key) SELECT 'orders', '{\"order\": 17, \"state\": \"paid\"}', 'order ' || i FROM generate_series(1, $messages) i"
    fi
    sql -c "VACUUM ANALYZE $table"
    pgbench_tps "bench/contenders/outbox/$1.sql"
    expect $((messages - 100 * $(pgbench_transactions))) "messages in $table" "SELECT count(*) FROM $table"
}
