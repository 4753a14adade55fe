# A step of a leased key noted as done, with its output, against the UPDATE of one row that says the same by hand: the row of the work, its
# fence compared, the output added to a jsonb. Each of 50,000 keys comes in turn, leased and without steps.
# shellcheck shell=bash

run_steps() {
    local rows=50000
    sql -c 'DROP TABLE IF EXISTS work' -f "$contenders/steps/schema.sql"
    flow_at_all_loads steps 'steps/s' steps_noted idem_step hand_written
    sql -c 'TRUNCATE idem_keys' -c 'DROP TABLE work'
}

steps_noted() {
    local table=work
    if [ "$1" = idem_step ]; then table=idem_keys; fi
    lease_all "$table"
    pgbench_tps bench/keys/row.sql "$contenders/steps/$1.sql"
    expect "$(pgbench_transactions)" "rows of $table with a step" "SELECT count(steps) FROM $table"
}

# As an hour's lease of each of them leaves it, fence 1.
lease_all() {
    if [ "$1" = idem_keys ]; then
        sql -c 'TRUNCATE idem_keys' -c "SELECT count(*) FROM generate_series(1, $rows) AS id, idem_begin(id::text, lease => '1 h')" \
            -c 'UPDATE idem_keys SET fence = 1' -c 'VACUUM (FULL, ANALYZE) idem_keys' >/dev/null
    else
        sql -c 'TRUNCATE work' -c "INSERT INTO work (key, fence, lease_until) SELECT id, 1, now() + interval '1 h' FROM generate_series(1, $rows) AS id" \
            -c 'VACUUM (FULL, ANALYZE) work'
    fi
}
