# What becomes of claims and lookups as the table grows, with 8 clients. A key is the hash of a number, as a UUID's 36 characters, so the
# clients can name any live key without looking it up; all make the hash in their statement. What was there is added to: 10 M contains
# the 1 M. The tables are filled by `idem_claim_many`, and by INSERT of sorted rows, in batches of a tenth of what is there: at a
# million keys that leaves the index at 69.5 % of its leaf pages, claims one by one leave 69.6 %. (Built afterwards with
# that fill factor it is of the same size, but no page is near its split, so claims would look cheaper than they are.) Everything is
# in the file system's cache, no more than 512 MB in the server's own. A claim's time is that of its transaction, commit included. WAL is
# counted after a checkpoint: its records, and apart from them the images of the pages that are changed for the first time since.
# shellcheck shell=bash

run_growth() {
    local size sizes=(1 10) keys=0 case rounds=${ROUNDS:-3} commit
    if [ -n "$QUICK" ]; then sizes=(1) rounds=${ROUNDS:-2}; fi
    if [ "${GROWTH:-0}" -gt "${sizes[-1]}" ]; then sizes+=("$GROWTH"); fi
    place '8 clients'
    sql -c 'TRUNCATE idem_keys, raw_keys'
    for size in "${sizes[@]}"; do
        case="$size M keys"
        grow_to $((size * 1000000))
        growth_space
        in_growth lookups '' 10000 numbered_present idem_lookup raw_select
        in_growth 'duplicate claims' '' 10000 numbered_present idem_claim raw_on_conflict
        for commit in on off; do
            PGOPTIONS="-c synchronous_commit=$commit" \
                in_growth 'fresh claims' ", synchronous_commit=$commit" 1000 numbered_fresh idem_claim raw_on_conflict
        done
        expect "$keys" 'keys of idem_claim' 'SELECT count(*) FROM idem_keys'
        expect "$keys" 'keys of raw_on_conflict' 'SELECT count(*) FROM raw_keys'
    done
    sql -c 'TRUNCATE idem_keys, raw_keys'
}

# grow_to KEYS: each table by a session of its own.
grow_to() {
    local contender fillers=() filler started=$SECONDS
    for contender in idem_claim raw_on_conflict; do
        sql -v first=$((keys + 1)) -v last="$1" -f "$contenders/growth/fill_$contender.sql" \
            -c "VACUUM (ANALYZE) $(keys_table "$contender")" &
        fillers+=($!)
    done
    children+=("${fillers[@]}")
    for filler in "${fillers[@]}"; do wait "$filler" || die 'the tables could not be filled'; done
    keys=$1
    sql -c CHECKPOINT
    progress "  $case: filled in $((SECONDS - started)) s"
}

growth_space() {
    local contender table
    for contender in idem_claim raw_on_conflict; do
        table=$(keys_table "$contender")
        sample 'bytes per key, table and index' "$case" "$contender" 1 \
            "$(sql -c "SELECT round(pg_total_relation_size('$table')::numeric / $keys, 1)")"
    done
}

# in_growth WHAT SUFFIX CALLS_PER_CLIENT KEYS CONTENDER...: a fixed number of calls, so that fresh claims take the same numbers in both tables.
in_growth() {
    local what=$1 suffix=$2 calls=$3 kind=$4 round contender before
    shift 4
    for ((round = 1; round <= rounds; round++)); do
        for contender in "$@"; do
            before=$(sql -c 'SELECT pg_current_wal_insert_lsn()')
            growth_calls
            sample "$what/s$suffix" "$case" "$contender" "$round" "$(awk '/^tps = / {print $3}' "$scratch/pgbench.out")"
            sample "$what, p99 in ms$suffix" "$case" "$contender" "$round" "$(growth_p99)"
            if [[ $suffix == *=on ]]; then growth_wal; fi
        done
        if [ "$kind" = numbered_fresh ]; then keys=$((keys + clients * calls)); fi
    done
    progress "  $case: $what$suffix"
}

growth_calls() {
    rm -f "$scratch"/growth.log.*
    run_pgbench --transactions="$calls" --client="$clients" --jobs="$((clients < cores ? clients : cores))" --define=clients="$clients" \
        --define=keys="$keys" --log --log-prefix="$scratch/growth.log" -- "bench/keys/$kind.sql" "$contenders/growth/$contender.sql"
    [ "$(pgbench_transactions)" -eq $((clients * calls)) ] || die "$contender did not make its $((clients * calls)) calls"
}

growth_p99() {
    cat "$scratch"/growth.log.* | awk '{print $3}' | sort --numeric-sort |
        awk '{times[NR] = $1} END {printf "%.3f\n", times[int(NR * 0.99)] / 1000}'
}

growth_wal() {
    local record_bytes image_bytes
    read -r record_bytes image_bytes < <("$bindir/pg_waldump" --stats --path="$(sql -c 'SHOW data_directory')/pg_wal" --start="$before" \
        --end="$(sql -c 'SELECT pg_current_wal_flush_lsn()')" | awk -v n=$((clients * calls)) '$1 == "Total" {printf "%.1f %.1f\n", $3 / n, $5 / n}')
    sample 'WAL bytes per fresh claim, without page images' "$case" "$contender" "$round" "$record_bytes"
    sample 'page images in the WAL, bytes per fresh claim' "$case" "$contender" "$round" "$image_bytes"
}
