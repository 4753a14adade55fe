# A token bucket asked once a call, a thousand names, each client its own: `idem_allow`, always let through, beside the UPDATE that somebody
# would write who knows that the row is there, and has no limit to check: one HOT update of a row of the same size. Refused: the bucket is
# empty, so nothing is written; beside `SELECT 1`, a round trip that does nothing.
# shellcheck shell=bash

run_rates() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    sql -c 'DROP TABLE IF EXISTS rates_by_hand' \
        -c 'CREATE TABLE rates_by_hand (scope text COLLATE "C", name text COLLATE "C", full_at timestamptz, PRIMARY KEY (scope, name)) WITH (fillfactor = 50)' \
        -c "INSERT INTO rates_by_hand SELECT '', 'client ' || n, now() FROM generate_series(0, 1000) AS n" -c 'VACUUM (ANALYZE) rates_by_hand' \
        -c "SELECT count((idem_allow('client ' || n, 1e9, 2000000000)).allowed), count((idem_allow('refused ' || n, 1e-6, 1)).allowed) FROM generate_series(0, 1000) AS n"
    allowed_at on
    allowed_at off
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'refused calls/s' "$load" rates_asked idem_allow_refused select_1
    done
    sql -c 'TRUNCATE idem_rates' -c 'DROP TABLE rates_by_hand'
}

# allowed_at SYNCHRONOUS_COMMIT
allowed_at() {
    for load in "${loads[@]}"; do
        place "$load"
        PGOPTIONS="-c synchronous_commit=$1" alternate "allowed calls/s, synchronous_commit=$1" "$load" rates_asked idem_allow hot_update
    done
}

rates_asked() { pgbench_tps bench/keys/name.sql "$(contender_file rates "$1")"; }
