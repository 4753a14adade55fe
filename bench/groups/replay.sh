# A duplicate answered with its stored response: one call, against the two statements it replaces.
# shellcheck shell=bash

run_replay() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    refill_with_responses
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'replays/s' "$load" replays idem_begin raw_insert_then_select select_1
    done
}

replays() {
    pgbench_tps bench/keys/duplicate.sql "$(contender_file replay "$1")"
    expect_keys "$1" "$prefill"
}
