# A ring whose sealed windows hold so many keys (`RINGS=1,50`: 1 and 50 million), beside a ring that has only the keys of these calls
# (`empty_ring`), idem without a ring, raw ON CONFLICT, and raw ON CONFLICT on a table that is partitioned by day, with a search of each partition.
# The ring has 8 windows and the table 8 partitions: seven are full, one takes new keys. The other tables hold the same keys. A key is the hash of a
# number, as a UUID's 36 characters; the clients make it in their statement. Fresh claims begin when the last window has just been opened. Later it is
# filled to half of what the others hold, which is its mean. synchronous_commit is off, except where a window is emptied. The filter's cost is that
# of a look-up of an absent key in the ring, less that in the empty one, in one statement; false positives are included. The window that is emptied is full,
# and 8 clients claim meanwhile: a claim counts as `beside_an_emptying` when it overlaps with one, and as `quiet` in the half second before.
# `beside_a_busy_session`: one that counts numbers for about as long, and touches no table.
# Before each run of claims shared_buffers (512 MB) is filled with what the contender would keep there if it were the only one (warm.sql): together they
# are larger than that, and each would begin with what the one before has left. The tables are in the machine's memory, which 24 GB suffice for: with
# more than 10 million keys the raw tables are left out, and with more than 50 million the table without a ring as well.
# shellcheck shell=bash

rings_sealed=7

run_rings() {
    local sizes=(0.2 2) size case keys old rings_filled rings_all rounds=${ROUNDS:-3} lookups=100000 PGOPTIONS='-c synchronous_commit=off'
    if [ -n "$QUICK" ]; then sizes=(0.2) rounds=${ROUNDS:-2} lookups=50000; fi
    if [ -n "${RINGS:-}" ]; then IFS=, read -r -a sizes <<<"$RINGS"; fi
    export PGOPTIONS
    sql -f "$contenders/rings/schema.sql" >/dev/null
    for size in "${sizes[@]}"; do
        case="$size M keys" rings_filled=(ring no_ring raw_on_conflict raw_partitioned)
        if [ "${size%.*}" -gt 10 ]; then rings_filled=(ring no_ring); fi
        if [ "${size%.*}" -gt 50 ]; then rings_filled=(ring); fi
        rings_all=(ring empty_ring "${rings_filled[@]:1}")
        fill_rings "$(awk -v size="$size" 'BEGIN {printf "%d", size * 1000000}')"
        rings_space
        rings_filter
        rings_wal 'open window new'
        rings_fresh 'fresh claims/s' '1 client, one processor' 4000 "${rings_all[@]}"
        rings_fresh 'fresh claims/s' '8 clients' 1000 "${rings_all[@]}"
        rings_batches
        rings_duplicates '1 client, one processor' 8000
        rings_duplicates '8 clients' 4000
        fill_open_window
        rings_fresh 'fresh claims/s, open window half full' '1 client, one processor' 4000 "${rings_all[@]}"
        rings_wal 'open window half full'
        expect_rings
        empty_rings
    done
    if [ "$ONLY" = rings ] && [ -n "${RINGS:-}" ]; then publish_rings; fi
    drop_rings
    sql -c 'DROP TABLE partitioned_keys, key_batches' -c 'DROP EXTENSION pg_prewarm' -c 'TRUNCATE idem_keys, raw_keys'
}

# The samples of each size, of its last run; and made from all of them, what stands between the two marks in docs/rings.md and docs/performance.md.
publish_rings() {
    local kept=docs/plots/rings.tsv
    mkdir -p "$scratch/rings"
    touch "$kept"
    {
        awk -F '\t' 'FILENAME == ARGV[1] {if ($1 == "rings") measured[$3]; next} !($3 in measured)' "$samples" "$kept"
        awk -F '\t' -v day="$(date --utc +%F)" '$1 == "rings" {print $0 "\t" day}' "$samples"
    } >"$scratch/rings/samples.tsv"
    LC_ALL=C sort --field-separator=$'\t' --stable --key=3,3n "$scratch/rings/samples.tsv" >"$kept"
    {
        printf '\nEach size is a run of `make bench ONLY=rings RINGS=<millions>`, the last ones of\n%s:\n\n' "$(rings_days "$kept")"
        awk -f bench/samples.awk -f bench/table.awk -f bench/rings.awk "$kept"
        echo
    } | replace_figures docs/rings.md
    rings_targets "$kept" | replace_figures docs/performance.md
}

# The group's, and of the sizes in docs/rings.md the targets, between two marks.
tables_rings() {
    tables rings
    printf '\n<!-- figures: written by `make bench ONLY=rings RINGS=...` -->\n'
    mkdir -p "$scratch/rings"
    rings_targets docs/plots/rings.tsv
    printf '<!-- end of figures -->\n'
}

# rings_targets SAMPLES: those of the sizes that are there, if there are any.
rings_targets() {
    local summary
    grep '^rings' bench/targets.tsv >"$scratch/rings/targets.tsv"
    summary=$(awk -v list='' -f bench/samples.awk -f bench/table.awk -f bench/report.awk "$scratch/rings/targets.tsv" bench/reasons.tsv "$1")
    if ! grep --quiet '^| rings' <<<"$summary"; then return; fi
    printf '\nThe targets of the sizes that [rings.md](rings.md) shows:\n\n%s\n\n' "$summary" | wrap_list
}

# As the page around it, at 100 columns.
wrap_list() {
    awk '!/^[0-9]+\. / {print; next}
        {line = $1
         for (i = 2; i <= NF; i++) if (length(line $i) < 100) line = line " " $i; else {print line; line = "   " $i}
         print line}'
}

# rings_days SAMPLES: 1 M keys on ..., 10 M keys on ...
rings_days() { awk -F '\t' '!($3 in seen) {seen[$3]; text = text (text ? ", " : "") $7 " (" $3 ")"} END {print text}' "$1"; }

# fill_rings KEYS: they are numbered from 1. Nothing else is left in the tables. The ring comes first: the sweeps that turn it read idem_keys as well.
fill_rings() {
    local started=$SECONDS
    old=$1 keys=$1
    drop_rings
    sql -c "SELECT idem_ring_create('full', '100 days')" -c "SELECT idem_ring_create('empty', '100 days')" \
        -c "SELECT idem_scope_set('f', ring => 'full')" -c "SELECT idem_scope_set('e', ring => 'empty')" -c 'TRUNCATE ONLY idem_keys, raw_keys, partitioned_keys' >/dev/null
    in_parallel fill_sealed_windows fill_partitions
    in_parallel "rings_fill no_ring 1 $keys" "rings_fill raw_on_conflict 1 $keys"
    settle_rings
    expect $rings_sealed 'sealed windows in the filter' "SELECT count(*) FROM idem_rings WHERE ring = 'full' AND state = 'sealed' AND false_positives >= 0"
    expect 2 'scopes in rings alone' 'SELECT count(*) FROM idem_scope_places'
    progress "  $case: filled in $((SECONDS - started)) s"
}

# in_parallel COMMAND...: each is words without blanks inside.
in_parallel() {
    local command fillers=() filler
    for command in "$@"; do
        $command &
        fillers+=($!)
    done
    children+=("${fillers[@]}")
    for filler in "${fillers[@]}"; do wait "$filler" || die 'the keys could not be filled in'; done
}

# share NUMBER: the last key of so many sealed windows.
share() { echo $((old * $1 / rings_sealed)); }

fill_sealed_windows() {
    local number
    for ((number = 0; number < rings_sealed; number++)); do
        rings_fill ring $(($(share $number) + 1)) "$(share $((number + 1)))"
        sql -f "$contenders/rings/rotate.sql"
    done
}

fill_partitions() {
    local number
    if ! is_filled raw_partitioned; then return; fi
    for ((number = 0; number < rings_sealed; number++)); do
        sql -v number=$number -v first=$(($(share $number) + 1)) -v last="$(share $((number + 1)))" -f "$contenders/rings/fill_raw_partitioned.sql"
    done
}

# is_filled CONTENDER
is_filled() { [[ " ${rings_filled[*]} " == *" $1 "* ]]; }

# rings_fill CONTENDER FIRST LAST
rings_fill() {
    local file=$contenders/rings/fill_$1.sql
    if ! is_filled "$1"; then return; fi
    case $1 in
        no_ring) file=$contenders/growth/fill_idem_claim.sql ;;
        raw_on_conflict) file=$contenders/growth/fill_raw_on_conflict.sql ;;
    esac
    sql -v number=$rings_sealed -v first="$2" -v last="$3" -f "$file"
}

# To half of what a sealed window has. The empty ring stays as it is.
fill_open_window() {
    local last=$((old + old / rings_sealed / 2))
    if [ "$last" -le "$keys" ]; then return; fi
    in_parallel "rings_fill ring $((keys + 1)) $last" "rings_fill no_ring $((keys + 1)) $last"
    in_parallel "rings_fill raw_partitioned $((keys + 1)) $last" "rings_fill raw_on_conflict $((keys + 1)) $last"
    keys=$last
    settle_rings
}

# A vacuum would note that a new partition is empty, and plans would scan it from then on.
settle_rings() {
    sql -c "SELECT format('VACUUM (ANALYZE) %s;', relid::regclass) FROM pg_stat_user_tables
        WHERE (relname ~ '^(idem_keys|raw_keys|idem_ring_|partitioned_keys_)') AND pg_relation_size(relid) > 0" | sql
    sql -c CHECKPOINT
    # What was filled first may have left the system's cache.
    sql -c "SELECT sum(pg_prewarm(c.oid, 'read')) FROM pg_class c
        WHERE c.relname ~ '^(idem_keys|raw_keys|idem_ring_|partitioned_keys_)' AND c.relkind IN ('r', 'i') AND pg_relation_size(c.oid) > 0" >/dev/null
}

# rings_bytes CONTENDER
rings_bytes() {
    case $1 in
        ring) sql -c "SELECT sum(bytes) + max(filter_bytes) FROM idem_rings WHERE ring = 'full'" ;;
        no_ring) sql -c "SELECT pg_total_relation_size('idem_keys')" ;;
        raw_on_conflict) sql -c "SELECT pg_total_relation_size('raw_keys')" ;;
        raw_partitioned) sql -c "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('partitioned_keys') WHERE isleaf" ;;
    esac
}

rings_space() {
    local contender
    for contender in "${rings_filled[@]}"; do
        sample 'bytes per key, tables, indexes and filter' "$case" "$contender" 1 \
            "$(awk -v bytes="$(rings_bytes "$contender")" -v keys="$keys" 'BEGIN {printf "%.1f", bytes / keys}')"
    done
    sample 'bytes per key, filter' "$case" ring 1 "$(sql -c "SELECT round(max(filter_bytes)::numeric / $keys, 3) FROM idem_rings WHERE ring = 'full'")"
}

# Each window is a round.
rings_filter() {
    local window share round full empty before
    while IFS='|' read -r window share; do
        sample 'share of false positives in a sealed window' "$case" ring $((window + 1)) "$share"
    done < <(sql -c "SELECT \"window\", false_positives FROM idem_rings WHERE ring = 'full' AND state = 'sealed'")
    place '1 client, one processor'
    for ((round = 0; round <= rounds; round++)); do
        warm empty_ring
        empty=$(lookup_time e)
        warm ring
        before=$(pages_read)
        full=$(lookup_time f)
        if [ $round -eq 0 ]; then continue; fi # brings the inner pages of the windows' indexes into memory
        sample 'pages read into shared_buffers per look-up of an absent key' "$case" ring $round \
            "$(awk -v before="$before" -v after="$(pages_read)" -v n="$lookups" 'BEGIN {printf "%.4f", (after - before) / n}')"
        sample 'µs per look-up of an absent key' "$case" ring $round "$full"
        sample 'µs per look-up of an absent key' "$case" empty_ring $round "$empty"
        sample 'µs that sealed windows add to a look-up' "$case" ring $round "$(awk -v full="$full" -v empty="$empty" 'BEGIN {printf "%.3f", full - empty}')"
    done
    progress "  $case: filter"
}

# By sessions that have ended.
pages_read() { sql -c 'SELECT blks_read FROM pg_stat_database WHERE datname = current_database()'; }

# lookup_time SCOPE: µs per look-up.
lookup_time() {
    sql -v scope="$1" -v lookups="$lookups" -v first=$((round * lookups)) -c '\timing on' -f "$contenders/rings/lookups.sql" |
        awk -v n="$lookups" '/^Time: / {ms = $2; printf "%.3f\n", ms * 1000 / n} END {exit !ms}'
}

# warm CONTENDER
warm() { sql -v contender="$1" -f "$contenders/rings/warm.sql" >/dev/null; }

# in_turn ROUND CONTENDER ...: every second round begins with the last, since each finds in shared_buffers what the one before it has left to write.
in_turn() {
    local round=$1 contender order=
    shift
    for contender in "$@"; do if [ $((round % 2)) -eq 1 ]; then order="$order $contender"; else order="$contender $order"; fi; done
    echo "$order"
}

# rings_calls CONTENDER KEYS_FILE LAST_KEY
rings_calls() {
    warm "$1"
    run_pgbench --transactions="$calls" --client="$clients" --jobs="$((clients < cores ? clients : cores))" --define=clients="$clients" \
        --define=keys="$3" -- "bench/keys/$2.sql" "$contenders/rings/$1.sql"
    [ "$(pgbench_transactions)" -eq $((clients * calls)) ] || die "$1 did not make its $((clients * calls)) calls"
}

# rings_fresh MEASURE LOAD CALLS_PER_CLIENT CONTENDER...: a fixed number of calls, so that all claim the same keys.
rings_fresh() {
    local measure=$1 load=$2 calls=$3 round contender
    shift 3
    place "$load"
    for ((round = 1; round <= rounds; round++)); do
        for contender in $(in_turn "$round" "$@"); do
            rings_calls "$contender" numbered_fresh "$keys"
            sample "$measure, $load" "$case" "$contender" "$round" "$(awk '/^tps = / {print $3}' "$scratch/pgbench.out")"
        done
        keys=$((keys + clients * calls))
    done
    progress "  $case: $measure, $load"
}

rings_duplicates() {
    local load=$1 calls=$2 round contender
    place "$load"
    for ((round = 1; round <= rounds; round++)); do
        for contender in $(in_turn "$round" "${rings_filled[@]}"); do
            rings_calls "$contender" numbered_present "$old"
            sample "duplicate claims/s, $load" "$case" "$contender" "$round" "$(awk '/^tps = / {print $3}' "$scratch/pgbench.out")"
        done
    done
    progress "  $case: duplicate claims/s, $load"
}

# Two calls a round.
rings_batches() {
    local size=10000 round contender
    place '1 client, one processor'
    for ((round = 1; round <= rounds; round++)); do
        sql -c 'TRUNCATE key_batches' -c "INSERT INTO key_batches SELECT array_agg(md5(n::text)::uuid::text ORDER BY random())
            FROM generate_series($keys + 1, $keys + 2 * $size) AS n GROUP BY n % 2" -c 'ANALYZE key_batches'
        for contender in $(in_turn "$round" "${rings_all[@]}"); do
            warm "$contender"
            sample "fresh keys/s, $size keys a call" "$case" "$contender" "$round" "$(sql -c '\timing on' -f "$contenders/rings/batch_$contender.sql" |
                awk -v n=$((2 * size)) '/^Time: / {ms = $2; printf "%.0f\n", n / (ms / 1000)} END {exit !ms}')"
        done
        keys=$((keys + 2 * size))
    done
    progress "  $case: batches"
}

# rings_wal SUFFIX
rings_wal() {
    local calls=1000 contender before
    place '8 clients'
    for contender in "${rings_filled[@]}"; do
        sql -c CHECKPOINT
        before=$(wal_position)
        rings_calls "$contender" numbered_fresh "$keys"
        sample "WAL bytes per fresh key after a checkpoint, $1" "$case" "$contender" 1 \
            "$(awk -v before="$before" -v after="$(wal_position)" -v n=$((clients * calls)) 'BEGIN {printf "%.1f\n", (after - before) / n}')"
    done
    # The empty ring has to know them as well.
    rings_calls empty_ring numbered_fresh "$keys"
    keys=$((keys + clients * calls))
}

wal_position() { sql -c "SELECT pg_current_wal_insert_lsn() - '0/0'"; }

expect_rings() {
    expect "$keys" 'keys in the ring' "SELECT count(*) FROM idem_keys WHERE scope = 'f'"
    if is_filled no_ring; then expect "$keys" 'keys without a ring' "SELECT count(*) FROM ONLY idem_keys"; fi
    if is_filled raw_on_conflict; then expect "$keys" 'keys of raw_on_conflict' 'SELECT count(*) FROM raw_keys'; fi
    if is_filled raw_partitioned; then expect "$keys" 'keys of raw_partitioned' 'SELECT count(*) FROM partitioned_keys'; fi
}

# Empties all sealed windows of the ring, and compares with claims beside a session that only uses a processor. The other tables are empty then, for a
# sweep goes through them, too.
empty_rings() {
    sql -c 'TRUNCATE ONLY idem_keys, raw_keys, partitioned_keys'
    empty_beside_claims on 1 4
    empty_beside_claims off 5 $rings_sealed
    progress "  $case: emptied"
}

# empty_beside_claims SYNCHRONOUS_COMMIT FIRST LAST: the setting is the claims'.
empty_beside_claims() {
    local claims=$scratch/rings_claims number kind pgbench to_sweeper from_sweeper
    place '8 clients'
    mkdir -p "$claims"
    cat bench/keys/fresh.sql >"$claims/claim.sql"
    echo "SELECT idem_claim(:key, scope => 'f');" >>"$claims/claim.sql"
    PGOPTIONS="-c synchronous_commit=$1" "${on_processors[@]}" "$bindir/pgbench" --no-vacuum --protocol=prepared --client=8 --jobs="$cores" --time=600 \
        --file="$claims/claim.sql" --log --log-prefix="$claims/log" >"$claims/pgbench.out" 2>&1 &
    pgbench=$!
    children+=("$pgbench")
    coproc SWEEPER { PGOPTIONS='-c client_min_messages=warning' sql; }
    exec {to_sweeper}>&"${SWEEPER[1]}" {from_sweeper}<&"${SWEEPER[0]}" # subshells have these
    sleep 0.5
    for ((number = $2; number <= $3; number++)); do
        empty_window
        use_processor
    done
    echo '\q' >&"$to_sweeper"
    exec {to_sweeper}>&- {from_sweeper}<&-
    kill "$pgbench" 2>/dev/null || { cat "$claims/pgbench.out" >&2; die 'the claims failed'; }
    wait "$pgbench" 2>/dev/null || true
    for kind in beside_an_emptying quiet beside_a_busy_session; do
        sample "ms until a claim is committed, p99, synchronous_commit=$1" "$case" $kind 1 "$(claims_overlapping_p99 $kind)"
    done
    rm -r "$claims"
}

# sweeper COMMAND: prints its last line. The session is one that stays: the start of another would be measured as well.
sweeper() {
    local line last=''
    printf '%s\n\\echo done\n' "$1" >&"$to_sweeper"
    while read -r line <&"$from_sweeper"; do
        if [ "$line" = 'done' ]; then
            echo "$last"
            return
        fi
        last=$line
    done
    die "the session that sweeps has ended at: $1"
}

# note_time KIND START END
note_time() { printf '%s\t%s\t%s\n' "$@" >>"$claims/times"; }

# By the first sweep that does not find the window locked: one that meets an autovacuum there leaves it for the next.
empty_window() {
    local start ready middle end ms=0 sweeps=0 map
    map=$(sweeper "SELECT format('idem_ring_%s', id) FROM idem_ring_registry WHERE ring = 'full';")
    sweeper "\\i $contenders/rings/expire.sql" >/dev/null
    sleep 0.1
    start=$EPOCHREALTIME
    sleep 0.5
    ready=$EPOCHREALTIME
    until [ "$(sweeper "SELECT count(*) FROM $map WHERE state = 'empty';")" -eq "$number" ]; do
        if [ $((++sweeps)) -gt 1 ]; then sleep 0.5; fi
        [ $sweeps -le 240 ] || die 'the window is not emptied'
        middle=$EPOCHREALTIME
        ms=$(sweeper '\timing on
CALL idem_sweep();
\timing off' | awk '/^Time: / {print $2}')
        end=$EPOCHREALTIME
    done
    note_time quiet "$start" "$ready"
    note_time beside_an_emptying "$middle" "$end"
    sample 's until a full window is empty' "$case" ring "$number" "$(awk -v ms="$ms" 'BEGIN {printf "%.4f", ms / 1000}')"
}

# About as long as an emptying takes.
use_processor() {
    local start
    sleep 0.2
    start=$EPOCHREALTIME
    sweeper 'SELECT count(*) FROM generate_series(1, 1000000) AS n WHERE n % 3 = 1;' >/dev/null
    note_time beside_a_busy_session "$start" "$EPOCHREALTIME"
}

# claims_overlapping_p99 KIND: of the transactions that overlapped with a time of that kind. The last line of a log may be cut short.
claims_overlapping_p99() {
    awk -v kind="$1" 'FILENAME ~ /times$/ {if ($1 == kind) {start[++times] = $2; end[times] = $3}; next}
        NF == 6 {at = $5 + $6 / 1e6; for (i = 1; i <= times; i++) if (at >= start[i] && at - $3 / 1e6 < end[i]) {print $3; next}}' "$claims/times" "$claims"/log.* |
        sort --numeric-sort | awk '{times[NR] = $1} END {printf "%.3f\n", times[int(NR * 0.99)] / 1000}'
}

# Those that there are.
drop_rings() {
    local ring
    for ring in $(sql -c 'SELECT ring FROM idem_ring_registry'); do
        sql -v ring="$ring" -v scope="${ring:0:1}" -f "$contenders/rings/drop.sql" >/dev/null
    done
}
