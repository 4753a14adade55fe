# How often a key was seen: `idem_hit` beside the statement that counts by hand, an INSERT ... ON CONFLICT DO UPDATE ... RETURNING on a table of
# the same columns and index. A thousand keys, each client its own, all seen before; each count is one HOT update of a row of the same size.
# shellcheck shell=bash

run_hits() {
    local table
    sql -c 'DROP TABLE IF EXISTS hits_by_hand' -f "$contenders/hits/schema.sql"
    for table in idem_counters hits_by_hand; do
        sql -c "TRUNCATE $table" -c "INSERT INTO $table (expires_at, hits, scope, key)
            SELECT now() + interval '1 day', 1, '', 'client ' || n FROM generate_series(0, 1000) AS n" -c "VACUUM (ANALYZE) $table"
    done
    flow_at_all_loads hits 'hits/s' hits_counted idem_hit on_conflict
    sql -c 'TRUNCATE idem_counters' -c 'DROP TABLE hits_by_hand'
}

hits_counted() {
    local table=hits_by_hand before
    if [ "$1" = idem_hit ]; then table=idem_counters; fi
    before=$(hits_in "$table")
    pgbench_tps bench/keys/name.sql "$contenders/hits/$1.sql"
    expect $((before + $(pgbench_transactions))) "hits in $table" "SELECT sum(hits) FROM $table"
}

hits_in() { sql -c "SELECT sum(hits) FROM $1"; }
