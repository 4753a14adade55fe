# Messages published, one a transaction, against an INSERT into a table of the same columns and index; with NOTIFY, against the same INSERT
# and a pg_notify. Then batches of 100 taken and acknowledged, two transactions each, against a queue by hand: an UPDATE of the rows that
# SKIP LOCKED finds free, and a DELETE. Keys are all different, so that both may give out what is next; the queue by hand keeps no
# order for those that are not. `pgmq_send` and `pgmq_read` are the statements that pgmq's functions run, on a queue of pgmq's columns and
# indexes: it has one table for each topic, no keys and no notification. A thousand messages in one transaction: one `idem_publish_many`, beside a
# thousand calls of `idem_publish`, and beside one INSERT of a thousand rows, given as VALUES or as the same JSON; the statements are not
# prepared, as their messages differ from call to call. Last, batches of 400 beside 1,000 other topics, which have 20 messages and a batch with a
# relay each, and alone.
# shellcheck shell=bash

run_outbox() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    sql -c 'DROP TABLE IF EXISTS raw_outbox, raw_queue, pgmq_queue' -f "$contenders/outbox/schema.sql"
    for load in "${loads[@]}"; do
        place "$load"
        PGOPTIONS='-c idem.outbox_notify=off' alternate 'published/s' "$load" published idem_publish insert pgmq_send
        PGOPTIONS='-c idem.outbox_notify=on' alternate 'published/s, with NOTIFY' "$load" published idem_publish insert_notify
        alternate 'batches of 100 taken and acknowledged/s' "$load" taken idem_outbox_take skip_locked pgmq_read
    done
    place '1 client, one processor'
    write_thousands
    PGOPTIONS='-c synchronous_commit=off' alternate 'messages published/s, 1,000 a transaction' '1 client, one processor' thousands_published \
        idem_publish_many idem_publish insert_values insert_json
    sql -c 'TRUNCATE idem_outbox, idem_outbox_leases'
    PGOPTIONS='-c synchronous_commit=off' alternate 'batches of 400 taken and acknowledged/s' '1 client, one processor' taken_400 \
        beside_1000_topics alone
    sql -c 'TRUNCATE idem_outbox, idem_outbox_leases' -c 'DROP TABLE raw_outbox, raw_queue, pgmq_queue'
}

# message_table CONTENDER
message_table() {
    case $1 in
        idem_*) echo idem_outbox ;;
        insert*) echo raw_outbox ;;
        skip_locked) echo raw_queue ;;
        pgmq_*) echo pgmq_queue ;;
    esac
}

published() {
    local table
    table=$(message_table "$1")
    sql -c "TRUNCATE $table"
    pgbench_tps "$contenders/outbox/$1.sql"
    expect "$(pgbench_transactions)" "messages in $table" "SELECT count(*) FROM $table"
}

# More than can be taken in a run.
taken() {
    local messages=100000 table payload='{"order": 17, "state": "paid"}'
    table=$(message_table "$1")
    sql -c 'TRUNCATE raw_queue, pgmq_queue, idem_outbox, idem_outbox_leases'
    case $1 in
        idem_*) sql -c "SELECT count(idem_publish('orders', '$payload', 'order ' || i)) FROM generate_series(1, $messages) i" >/dev/null ;;
        skip_locked) sql -c "INSERT INTO raw_queue (topic, payload, key) SELECT 'orders', '$payload', 'order ' || i FROM generate_series(1, $messages) i" ;;
        pgmq_*) sql -c "INSERT INTO pgmq_queue (vt, message) SELECT clock_timestamp(), '$payload' FROM generate_series(1, $messages)" ;;
    esac
    sql -c "VACUUM ANALYZE $table"
    pgbench_tps "$contenders/outbox/$1.sql"
    expect $((messages - 100 * $(pgbench_transactions))) "messages in $table" "SELECT count(*) FROM $table"
}

# A thousand messages, each with a key of its own, as each contender gets them.
write_thousands() {
    local array
    array=$(sql -c "SELECT jsonb_agg(jsonb_build_object('payload', jsonb_build_object('order', i, 'state', 'paid'), 'key', 'order ' || i)) FROM generate_series(1, 1000) i")
    echo "SELECT cardinality(idem_publish_many('orders', '$array'));" >"$scratch/idem_publish_many.sql"
    {
        echo 'BEGIN;'
        sql -c "SELECT format('SELECT idem_publish(''orders'', ''{\"order\": %s, \"state\": \"paid\"}'', ''order %1\$s'');', i) FROM generate_series(1, 1000) i"
        echo 'COMMIT;'
    } >"$scratch/idem_publish.sql"
    {
        echo 'INSERT INTO raw_outbox (topic, payload, key) VALUES'
        sql -c "SELECT string_agg(format('(''orders'', ''{\"order\": %s, \"state\": \"paid\"}'', ''order %1\$s'')', i), E',\n') FROM generate_series(1, 1000) i"
        echo 'RETURNING id;'
    } >"$scratch/insert_values.sql"
    echo "INSERT INTO raw_outbox (topic, payload, key) SELECT 'orders', m -> 'payload', m ->> 'key' FROM jsonb_array_elements('$array') m RETURNING id;" \
        >"$scratch/insert_json.sql"
}

# In messages per second.
thousands_published() {
    local table rate protocol=extended
    table=$(message_table "$1")
    sql -c "TRUNCATE $table"
    rate=$(pgbench_tps "$scratch/$1.sql")
    expect $((1000 * $(pgbench_transactions))) "messages in $table" "SELECT count(*) FROM $table"
    awk -v rate="$rate" 'BEGIN {print 1000 * rate}'
}

taken_400() {
    local messages=200000 others=0
    sql -c 'TRUNCATE idem_outbox, idem_outbox_leases'
    if [ "$1" = beside_1000_topics ]; then
        others=20000
        sql -c "SELECT count(idem_publish('topic ' || i % 1000, '{}', 'order ' || i)) FROM generate_series(1, $others) i" \
            -c "SELECT count((SELECT count(*) FROM idem_outbox_take('topic ' || i, 10, '1 h'))) FROM generate_series(0, 999) i" >/dev/null
    fi
    sql -c "SELECT count(idem_publish('orders', '{\"order\": 17, \"state\": \"paid\"}', 'order ' || i)) FROM generate_series(1, $messages) i" >/dev/null
    sql -c 'VACUUM ANALYZE idem_outbox' -c 'VACUUM ANALYZE idem_outbox_leases'
    pgbench_tps "$contenders/outbox/take_400.sql"
    expect $((messages + others - 400 * $(pgbench_transactions))) 'messages in idem_outbox' 'SELECT count(*) FROM idem_outbox'
}
