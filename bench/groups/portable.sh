# The portable edition, in a schema of its own beside the C edition: the same calls, beside raw SQL and `plpgsql`, the guard that one writes oneself.
# A claim is one of the group claim, a request one of the group request, all over loopback TCP: `portable_execute` is one call, `hand_written` five
# statements. The duplicates are keys that are there.
# shellcheck shell=bash

source bench/groups/claim.sh
source bench/groups/request.sh

run_portable() {
    local PGHOST=127.0.0.1 rounds=${ROUNDS:-3} run_seconds=${RUN_SECONDS:-1} load kind contender loads=('1 client, one processor' '8 clients' '16 clients')
    local sides=(portable raw_on_conflict plpgsql idem_claim)
    if [ -n "$QUICK" ]; then loads=('8 clients') rounds=${ROUNDS:-2} run_seconds=${RUN_SECONDS:-0.5}; fi
    make --silent portable
    sql -c "SET idem_portable.schema = 'portable'" -f build/idem--portable.sql -f "$contenders/claim/schema.sql" >/dev/null

    for load in "${loads[@]}"; do
        place "$load"
        alternate 'fresh claims/s' "$load" fresh_claims "${sides[@]}"
    done
    for contender in portable raw_on_conflict idem_claim; do refill "$contender"; done
    sql -c 'VACUUM (ANALYZE)'
    for load in "${loads[@]}"; do
        place "$load"
        alternate 'duplicate claims/s' "$load" duplicate_claims "${sides[@]}" select_1
    done
    sides=(portable_execute hand_written portable_begin_complete plpgsql idem_execute)
    for kind in fresh replayed; do
        prepare_portable_requests
        load=${loads[-1]}
        place "$load"
        alternate "$kind requests/s" "$load" requests "${sides[@]}"
        place '1 client'
        portable_requests_over_network
    done
    sql -c 'DROP FUNCTION claim_once, claim_under_lock' -c "SET idem_portable.schema = 'portable'" -f build/idem--portable-uninstall.sql >/dev/null
}

portable_requests_over_network() {
    local PGHOST=$PGHOST proxy
    start_proxy 500
    alternate "$kind requests/s" '0.5 ms each way, 1 client' requests "${sides[@]}"
    stop_child "$proxy"
}

# Before replays all keys are there, with a response.
prepare_portable_requests() {
    if [ "$kind" = fresh ]; then return; fi
    refill_with_responses
    sql -c 'TRUNCATE portable.idem_keys' -c 'INSERT INTO portable.idem_keys SELECT * FROM idem_keys' -c 'VACUUM (ANALYZE) portable.idem_keys'
}
