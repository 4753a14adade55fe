# A duplicate answered with its stored response: one call, against the two statements it replaces, and from PostgreSQL 19 on against the one that
# replaces them there, ON CONFLICT DO SELECT.
# shellcheck shell=bash

run_replay() {
    local load loads=('1 client, one processor' '8 clients')
    if [ -n "$QUICK" ]; then loads=('8 clients'); fi
    refill_with_responses
    local newer=()
    if [ "$(sql -c "SELECT current_setting('server_version_num')::int >= 190000")" = t ]; then newer=(on_conflict_do_select); fi
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'replays/s' "$load" replays idem_begin raw_insert_then_select "${newer[@]}" select_1
    done
}

replays() {
    pgbench_tps bench/keys/duplicate.sql "$(contender_file replay "$1")"
    expect_keys "$1" "$prefill"
}
