#!/usr/bin/env bash
# Counts the instructions that a backend spends on a call, by running a server of its own under valgrind's callgrind.
# A session of N calls is compared with one of 2N, so that start-up and planning cancel out.
#
#   bench/instructions.sh [--portable] [CALLS [PREFILL [WHAT]]]      prints case, contender, instructions per call
#
# --portable: of the portable edition, the calls of bench/portable_calls.sh.
#
# WHAT is a regular expression for "case, contender": a session under valgrind costs seconds.
#
# The profiles can be kept for callgrind_annotate: PROFILES=directory bench/instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source bench/lib.sh
source bench/tables.sh
source bench/groups/locks.sh
source bench/groups/tokens.sh

# More rows than calls, for the versions' sake (bench/keys/row.sql). before_session: a function that is given the contender.
if [ "${1:-}" = --portable ]; then export IDEM_PORTABLE=1 && shift; fi
calls=${1:-1000} prefill=${2:-50000} rows=4000 before_session='' data='' server=''
what=${3:-}
trap 'stop_under_valgrind; stop_everything' EXIT

# Profiles go to the cluster's directory, where the server's user may write.
start_under_valgrind() {
    as_server "$bindir/pg_ctl" stop --silent --pgdata="$data" --mode=fast
    # That user may not be able to read the checkout.
    (cd / && as_server valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$PGHOST/callgrind.%p" \
        "$bindir/postgres" -D "$data" >"$scratch/valgrind.log" 2>&1) &
    server=$!
    # Not by pg_isready: it would leave the profile of a session.
    until grep -qs '^ready' "$data/postmaster.pid"; do
        kill -0 "$server" 2>/dev/null || { cat "$scratch/valgrind.log" >&2; die "the server did not start under valgrind"; }
        sleep 0.5
    done
}

# Tokens are redeemed once.
forget_redeemed() { sql -c 'TRUNCATE idem_tokens, idem_keys'; }

# Waits for the server's own profile too: it must not be written into a directory that is being removed.
stop_under_valgrind() {
    if [ -n "$server" ]; then
        as_server "$bindir/pg_ctl" stop --silent --pgdata="$data" --mode=fast || true
        wait "$server" || true
    fi
}

# A session's profile comes when its client has gone.
await_profiles() { until [ "$(grep -ls '^totals:' "$PGHOST"/callgrind.* | wc -l)" -ge "$1" ]; do sleep 0.2; done; }

# instructions_of_session CALLS FILE...: pgbench opens two sessions; the one that made the calls is the more expensive one.
instructions_of_session() {
    rm -f "$PGHOST"/callgrind.*
    if [ -n "$before_session" ]; then
        "$before_session" "$contender"
        await_profiles 1
        rm -f "$PGHOST"/callgrind.*
    fi
    pgbench_calls "$@"
    await_profiles 2
    awk '/^totals:/ && $2 > most {most = $2} END {printf "%d\n", most}' "$PGHOST"/callgrind.*
}

# count CASE CONTENDER FILE...
count() {
    local case=$1 contender=$2 once twice
    [[ "$case, $contender" =~ $what ]] || return 0
    shift 2
    once=$(instructions_of_session "$calls" "$@")
    twice=$(instructions_of_session $((2 * calls)) "$@")
    printf '%s\t%s\t%d\n' "$case" "$contender" $(((twice - once) / calls))
    if [ -n "${PROFILES:-}" ]; then keep_profile "$PROFILES/${case// /-}-$contender"; fi
}

# Only the session that made the calls: the largest file.
keep_profile() {
    mkdir -p "$(dirname "$1")"
    cp "$(grep -H '^totals:' "$PGHOST"/callgrind.* | sort -t ' ' -k 2 -n | tail -n 1 | cut -d : -f 1)" "$1"
}

# The C edition is loaded at the start, so that it has its statistics.
if [ -n "${IDEM_PORTABLE:-}" ]; then start_cluster autovacuum=off; else start_cluster autovacuum=off shared_preload_libraries=idem; fi
# Under valgrind a statement that does not wait takes as long as one that does.
if [ -n "${IDEM_PORTABLE:-}" ]; then
    sql >/dev/null <<'SQL'
SELECT replace(pg_get_functiondef(oid), $$interval '5 ms'$$, $$interval '1 hour'$$) FROM pg_proc
 WHERE pronamespace = 'idem'::regnamespace AND prokind = 'f' AND strpos(prosrc, $$interval '5 ms'$$) > 0 \gexec
SQL
fi
claims=(idem_claim raw_on_conflict raw_leanest)
requests=(idem_execute idem_begin_complete hand_written plpgsql)
for contender in "${claims[@]}"; do refill "$contender"; done
sql -f "$contenders/shared/rows_schema.sql" -f "$contenders/transition/schema.sql" >/dev/null
refill_redemptions
sql -f "$contenders/locks/schema.sql" -c 'CREATE SEQUENCE plain_ids' >/dev/null
for table in idem_locks leases; do refill_locks "$table"; done
prepare_tokens
data=$(sql -c 'SHOW data_directory')
start_under_valgrind
# The first session after a start builds what others find.
instructions_of_session 1 "$contenders/shared/select_1.sql" >/dev/null

if [ -n "${IDEM_PORTABLE:-}" ]; then
    source bench/portable_calls.sh
    exit
fi

for contender in "${claims[@]}"; do
    count 'duplicate claim' "$contender" bench/keys/duplicate.sql "$contenders/claim/$contender.sql"
done
count 'duplicate claim' select_1 "$contenders/shared/select_1.sql"
for contender in idem_begin raw_insert_then_select; do
    count 'repeated request' "$contender" bench/keys/duplicate.sql "$contenders/replay/$contender.sql"
done
for contender in idem_lookup raw_select; do
    count lookup "$contender" bench/keys/duplicate.sql "$contenders/lookup/$contender.sql"
done
for contender in "${claims[@]}"; do
    count 'fresh claim' "$contender" bench/keys/fresh.sql "$contenders/claim/$contender.sql"
done
# What idem_stats costs.
for kind in duplicate fresh; do
    for contender in counters_on counters_off; do
        PGOPTIONS="-c idem.track_stats=${contender#counters_}" \
            count "$kind claim, counted" "$contender" "bench/keys/$kind.sql" "$contenders/claim/idem_claim.sql"
    done
done
for contender in "${requests[@]}"; do
    count request "$contender" bench/keys/fresh.sql bench/keys/order.sql "$contenders/request/$contender.sql"
done
for contender in idem_http_begin idem_begin; do
    count 'HTTP request, begun' "$contender" bench/keys/fresh.sql "$contenders/http/$contender.sql"
done
for contender in idem_next_id nextval; do count 'id' "$contender" "$contenders/ids/$contender.sql"; done
for contender in unique_insert on_conflict_or_select on_conflict; do
    count 'duplicate unique insert' "$contender" bench/keys/duplicate.sql bench/keys/order.sql "$contenders/unique/$contender.sql"
done
for contender in unique_insert on_conflict; do
    count 'fresh unique insert' "$contender" bench/keys/fresh.sql bench/keys/order.sql "$contenders/unique/$contender.sql"
done

# count_changes CASE FLOW CONTENDER...
count_changes() {
    local case=$1 flow=$2 contender
    shift 2
    for contender in "$@"; do count "$case" "$contender" bench/keys/row.sql "$contenders/$flow/$contender.sql"; done
}
count_changes 'lock and unlock' locks idem_lock hand_written
count 'token issued' idem_token_issue "$contenders/tokens/idem_token_issue.sql"
before_session=forget_redeemed
count_changes 'token redeemed' tokens idem_token_redeem idem_claim
before_session=refill_stock
count_changes 'optimistic update' optimistic optimistic_update hand_written hand_written_guarded
count_changes 'conditional adjustment' conditional conditional_adjust hand_written
count_changes 'row lock' pessimistic pessimistic_lock hand_written
before_session=refill_jobs
count_changes 'UPDATE that moves the state' transition move_guarded move_plain move_logged
count_changes 'UPDATE that leaves the state alone' transition touch_guarded touch_plain
count_changes 'transition' transition idem_transition hand_written
