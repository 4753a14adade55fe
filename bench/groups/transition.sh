# A state machine's trigger, and `idem_transition` beside the compare-and-set by hand. `guarded` has the trigger attached, `logged`
# also writes each move into the log, `plain` has neither. Rows are picked at random of 40,000.
# shellcheck shell=bash

run_transition() {
    local beside=(move_plain move_logged)
    if [ -n "$QUICK" ]; then beside=(move_plain); fi
    sql -f "$contenders/transition/schema.sql" >/dev/null
    flow_at_all_loads transition 'UPDATEs that move the state/s' job_changes move_guarded "${beside[@]}"
    flow_at_all_loads transition 'UPDATEs that leave the state alone/s' job_changes touch_guarded touch_plain
    flow_at_all_loads transition 'transitions/s' job_changes idem_transition hand_written
    sql -c 'TRUNCATE plain_jobs, guarded_jobs, logged_jobs, idem_transition_log'
}

job_changes() {
    local table before
    table=$(jobs_table "$1")
    refill_jobs "$1"
    before=$(rows_updated "$table")
    pgbench_tps bench/keys/row.sql "$contenders/transition/$1.sql"
    expect $((before + $(pgbench_transactions))) "updated rows of $table" "SELECT $(updates_of "$table")"
}
