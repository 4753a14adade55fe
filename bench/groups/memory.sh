# What a session holds in memory after a million calls, each a statement of its own in a loop of PL/pgSQL that commits after every
# thousand. A request and a lock are two calls (`idem_execute` makes one of two). The session itself is asked, when its caches are
# filled and at the end: for what is in use in all its memory contexts (`pg_backend_memory_contexts`), and for its anonymous
# memory as the kernel counts it (RssAnon), with what is free in the contexts' blocks, and without shared buffers. What idem has in
# shared memory is there only when it is preloaded, for `idem_stats`; it does not grow.
# shellcheck shell=bash

run_memory() {
    local calls=1000000
    if [ -n "$QUICK" ]; then calls=100000; fi
    place '8 clients'
    sql -c 'TRUNCATE idem_keys, raw_keys, idem_locks' -c 'DROP TABLE IF EXISTS leases' -f "$contenders/locks/schema.sql" \
        -c "INSERT INTO leases (name) SELECT 'lock ' || id FROM generate_series(0, 9999) AS id"
    memory_of 'fresh claims' fresh 1 idem_claim raw_on_conflict
    expect_memory "'fresh %'" "$calls"
    memory_of 'duplicate claims' duplicate 1 idem_claim raw_on_conflict
    expect_memory "'present %'" 1000
    memory_of lookups lookup 1 idem_lookup raw_select
    memory_of requests request 2 idem_begin_complete hand_written idem_execute
    expect_memory "'request %'" $((calls / 2))
    memory_of locks lock 2 idem_lock hand_written
    expect $((calls / 2)) 'times that a lock was taken by idem_lock' 'SELECT sum(attempt) FROM idem_locks'
    expect $((calls / 2)) 'times that a lock was taken by hand' 'SELECT sum(fence) FROM leases'
    sample 'bytes of shared memory' preloaded idem 1 \
        "$(sql -c "SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name LIKE 'idem%'")"
    sql -c 'TRUNCATE idem_keys, raw_keys, idem_locks' -c 'DROP TABLE leases'
}

# memory_of CASE DIRECTORY CALLS_EACH CONTENDER...: a session for each contender, all at the same time, for nothing is timed.
memory_of() {
    local case=$1 directory=$2 first=$((10000 / $3)) loops=$((calls / $3)) contender sessions=() session moment used anonymous
    shift 3
    for contender in "$@"; do
        memory_session "$directory/$contender" >"$scratch/memory.$contender" &
        sessions+=($!)
    done
    for session in "${sessions[@]}"; do wait "$session" || die "$case: the calls failed"; done
    for contender in "$@"; do
        {
            read -r _
            for moment in 10000 "$calls"; do
                IFS='|' read -r used anonymous
                sample 'bytes used in memory contexts' "$case, after $moment calls" "$contender" 1 "$used"
                sample 'bytes of anonymous memory' "$case, after $moment calls" "$contender" 1 "$anonymous"
            done
        } <"$scratch/memory.$contender"
    done
    progress "  $case"
}

# memory_session FILE: the figures at the start, when the caches are filled, and at the end. To ask takes memory, too.
memory_session() {
    local ask="SELECT sum(used_bytes), (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\s+(\d+)'))[1]::bigint * 1024
        FROM pg_backend_memory_contexts"
    sql -c 'SET synchronous_commit = off' -c "$ask" -c "$(memory_loop "$1" 1 "$first")" -c "$ask" \
        -c "$(memory_loop "$1" $((first + 1)) "$loops")" -c "$ask"
}

# memory_loop FILE FIRST LAST
memory_loop() {
    cat <<SQL
DO \$\$
BEGIN
    FOR n IN $2 .. $3 LOOP
        $(cat "$contenders/memory/$1.sql")
        IF n % 1000 = 0 THEN COMMIT; END IF;
    END LOOP;
END
\$\$
SQL
}

# expect_memory PATTERN COUNT: both tables.
expect_memory() {
    expect "$2" 'keys of idem' "SELECT count(*) FROM idem_keys WHERE key LIKE $1"
    expect "$2" 'keys by hand' "SELECT count(*) FROM raw_keys WHERE key LIKE $1"
}
