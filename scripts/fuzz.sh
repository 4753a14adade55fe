#!/usr/bin/env bash
# Throws random input at idem, for MINUTES (1) a target: at the core, by libFuzzer; at every function, with odd arguments in
# ever new combinations; at a server, by sqlsmith, as a superuser and as an operator. Fails on whatever was found. Needs Clang.
# `huge`, with arguments of 1 GB, is run only when asked for: it takes minutes and 6 GB of memory.
#
#   fuzz.sh [core [TARGET ...] | functions | sqlsmith | huge]
#
# What libFuzzer finds is in build/fuzz: the corpora, and what failed in failures/. A failure, once mended, becomes a seed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
unset PGHOST PGPORT PGUSER PGDATABASE # no server but our own

minutes=${MINUTES:-1}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: MINUTES is \"$minutes\", not a whole number of minutes" >&2; exit 2; }
seconds=$((minutes * 60))
seed=${SEED:-$RANDOM}
build=$PWD/build/fuzz
cluster=fuzz-$$
status=0

# --- The core ------------------------------------------------------------------------------------------------------------

build_targets() {
    local compiler=${CLANG:-}
    [ -n "$compiler" ] || compiler=$(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -V | tail -n 1 || true)
    [ -n "$compiler" ] || { echo "fuzz.sh: no clang++" >&2; exit 1; }
    cmake -S . -B "$build" -DIDEM_FUZZ=ON -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]/#/idem-fuzz-}" -- --quiet
}

fuzz_target() {
    local target=$1 corpus=$build/corpus/$1 log=$build/$1.log
    mkdir -p "$corpus" "$build/failures"
    if nice -n 5 "$build/bin/idem-fuzz-$target" -max_total_time="$seconds" -max_len=2048 -timeout=10 -seed="$seed" -print_final_stats=1 \
        -artifact_prefix="$build/failures/$target-" "$corpus" "tests/fuzz/seeds/$target" >"$log" 2>&1; then
        awk -v target="$target" '/\tDONE /{for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1); else if ($i == "ft:") features = $(i + 1)}
            /number_of_executed_units/{runs = $2}
            END {printf "%-16s %12d runs, %6d edges, %6d features\n", target, runs, edges, features}' "$log"
    else
        echo "$target FAILED; from $log:"
        grep -vE '^#[0-9]|NEW_FUNC' "$log" | tail -n 40
        return 1
    fi
}

fuzz_core() {
    targets=("$@")
    [ $# -gt 0 ] || mapfile -t targets < <(find tests/fuzz/seeds -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
    [ ${#targets[@]} -gt 0 ] || { echo 'fuzz.sh: no target in tests/fuzz/seeds' >&2; exit 1; }
    build_targets
    export -f fuzz_target
    export build seconds seed
    printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'fuzz_target {}' || status=1
}

# --- A server ------------------------------------------------------------------------------------------------------------

start_cluster() {
    [ -z "${PGHOST:-}" ] || [ "$PGHOST" != "/tmp/idem-$(id -u)/$cluster" ] || return 0
    scripts/install.sh
    scripts/cluster.sh start "$cluster" fsync=off statement_timeout=5min track_functions=all log_error_verbosity=verbose "log_line_prefix=%p [%u] %e "
    eval "$(scripts/cluster.sh env "$cluster")"
}

psql() { "$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "$@"; }

# Crashes, internal errors with their statements and places in the source (idem's files are .cpp, PostgreSQL's .c), and what a
# transaction left behind.
scan_server_log() {
    local findings=$build/server-findings.txt
    awk '/^[0-9]+ [^ ]* [0-9A-Z]+ [A-Z]+: /{
             of_interest = /was terminated by signal|Failed process was running|PANIC: |TRAP: |WARNING: .*(leak|not closed|still referenced)/ ||
                           $3 ~ /^(XX|58)/ }
         of_interest' "$PGHOST/server.log" >"$findings"
    [ -s "$findings" ] || return 0
    echo "in the server's log, with statements in $findings:"
    grep -aE '(ERROR|FATAL|PANIC|WARNING|LOCATION): |terminated by signal' "$findings" | cut -d ' ' -f 2- | sort | uniq -c | sort -rn | head -n 40
    return 1
}

fuzz_functions() {
    local rounds=100 end=$((SECONDS + seconds)) calls=0 more
    start_cluster
    psql --command='CREATE DATABASE functions'
    psql --dbname=functions --command='CREATE EXTENSION idem'
    while [ "$SECONDS" -lt "$end" ]; do
        more=$(psql --dbname=functions --tuples-only --no-align --set=seed="$seed" --set=rounds="$rounds" --output=/dev/null \
            --file=tests/pgtap/include/odd_arguments.psql --command='\echo :calls' --command='\echo :problems') || { status=1 && echo "functions FAILED: seed $seed" && return; }
        calls=$((calls + $(head -n 1 <<<"$more")))
        if [ "$(tail -n +2 <<<"$more")" != none ]; then
            status=1
            echo "functions, seed $seed:"
            tail -n +2 <<<"$more" | head -n 20
        fi
        seed=$((seed + 1))
    done
    printf '%-16s %12d calls\n' functions "$calls"
    [ "$calls" -gt 0 ] || status=1
}

fuzz_huge() {
    start_cluster
    psql --command='CREATE DATABASE huge'
    psql --dbname=huge --command='CREATE EXTENSION idem'
    local answer
    answer=$(psql --dbname=huge --tuples-only --no-align --output=/dev/null --file=tests/fuzz/huge_arguments.sql \
        --command='\echo :huge_calls' --command='\echo :huge_problems') || { status=1 && echo 'huge FAILED' && return; }
    printf '%-16s %12d calls\n' huge "$(head -n 1 <<<"$answer")"
    if [ "$(tail -n +2 <<<"$answer")" != none ]; then
        status=1
        tail -n +2 <<<"$answer"
    fi
}

# sqlsmith runs until it is stopped, and ends by itself when the server does.
fuzz_sqlsmith() {
    scripts/deps.sh sqlsmith
    start_cluster
    psql --command='CREATE DATABASE smith'
    psql --dbname=smith --file=tests/fuzz/sqlsmith.sql >/dev/null
    psql --dbname=smith --command='SELECT pg_stat_reset()' >/dev/null
    local role pids=()
    for role in postgres smith_operator; do
        nice -n 5 timeout --signal=INT "$seconds" sqlsmith --target="host=$PGHOST port=$PGPORT dbname=smith user=$role" --exclude-catalog \
            --seed="$seed" --verbose >"$build/sqlsmith-$role.log" 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}" || true
    psql --dbname=smith --tuples-only --no-align <<'SQL'
CREATE TEMP TABLE called AS
    SELECT p.proname, sum(coalesce(s.calls, 0)) AS calls
      FROM smith.extension_function p LEFT JOIN pg_stat_user_functions s ON s.funcid = p.oid OR s.funcname IN ('some_' || p.proname, CASE p.proname WHEN 'idem_key' THEN 'key_of' END)
     GROUP BY p.oid, p.proname;
SELECT format('sqlsmith         %12s calls, of %s functions; not of %s', sum(calls), count(*) FILTER (WHERE calls > 0),
              coalesce(string_agg(proname, ', ') FILTER (WHERE calls = 0), 'none'))
  FROM called;
SQL
    for role in postgres smith_operator; do
        awk -v role="$role" '/^queries: /{queries = $2} /^error rate: /{rate = $3} END {printf "    as %s: %d queries, %d %% refused\n", role, queries, rate * 100}' \
            "$build/sqlsmith-$role.log"
        grep -q '^queries: [1-9]' "$build/sqlsmith-$role.log" || { status=1 && echo "sqlsmith FAILED: no query as $role, see $build/sqlsmith-$role.log"; }
    done
}

# -------------------------------------------------------------------------------------------------------------------------

finish() {
    cp "${PGHOST:-}/server.log" "$build/server.log" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster"
}

selection=${1:-all}
[ $# -eq 0 ] || shift
at_exit finish
mkdir -p "$build"
echo "seed $seed, $minutes min a target"
case $selection in
    core) fuzz_core "$@" ;;
    functions) fuzz_functions ;;
    sqlsmith) fuzz_sqlsmith ;;
    huge) fuzz_huge ;;
    all)
        fuzz_core
        fuzz_functions
        fuzz_sqlsmith
        ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
if [ -n "${PGHOST:-}" ]; then scan_server_log || status=1; fi
exit "$status"
