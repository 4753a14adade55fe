#!/usr/bin/env bash
# Builds with warnings as errors, installs, and runs every suite against a private cluster. `check.sh core` leaves out the
# slow one, recovery. Logs are kept in build/check.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

selection=${1:-all}
logs=$PWD/build/check
cluster=check-$$
child=
table=()
total_passed=0 total_failed=0 total_skipped=0

# Whatever way out is taken, nothing that was started stays.
stop_everything() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -TERM -- "-$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    cp "${PGHOST:-}/server.log" "$logs/server.log" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster"
}

# Runs in a process group of its own, so that an interrupt can end all of it, and in the background, so that bash acts on
# the interrupt at once.
run() {
    local status=0
    set -m
    "$@" </dev/null &
    child=$!
    set +m
    wait "$child" || status=$?
    child=
    return "$status"
}

# --- What the suites run -------------------------------------------------------------------------------------------------

build() {
    scripts/install.sh WERROR=1 &&
        cmake -S . -B build/cmake -DCMAKE_COMPILE_WARNING_AS_ERROR=ON &&
        cmake --build build/cmake --parallel "$(nproc)"
}

# fsync: the cluster does not outlive the check. statement_timeout: a test that hangs is to fail.
start_cluster() {
    scripts/cluster.sh start "$cluster" fsync=off max_prepared_transactions=10 statement_timeout=5min
}

unit() { ctest --test-dir build/cmake --output-on-failure --label-exclude 'client|fuzz'; }

# The fuzz targets on their seeds, with AddressSanitizer.
fuzz() { ctest --test-dir build/cmake --output-on-failure --label-regex fuzz; }

# In a database of its own. Where the clients' tests stop servers, they make them inside the cluster's directory. What must
# hold at each point where a connection can break is tried several times over; 100 times take the better part of an hour.
client() {
    if [ "$selection" = all ]; then export IDEM_CUT_REPETITIONS=${IDEM_CUT_REPETITIONS:-5}; fi
    "$bindir/createdb" client &&
        PGDATABASE=client ctest --test-dir build/cmake --output-on-failure --label-regex client --parallel "$(nproc)"
}

# What the sources must not have in them.
tree() { bats --tap tests/tree; }

# As others use the client: from the installed package.
consumer() { tests/consumer/run.sh build/cmake; }

regress() { make --silent installcheck ISOLATION=; }

isolation() { make --silent installcheck REGRESS=; }

pgtap() {
    "$bindir/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 <<'SQL' &&
CREATE DATABASE pgtap;
\connect pgtap
CREATE SCHEMA tap;
CREATE EXTENSION pgtap SCHEMA tap;
CREATE SCHEMA idem;
CREATE EXTENSION idem SCHEMA idem;
ALTER DATABASE pgtap SET search_path = idem, tap, public;
SQL
        pg_prove --psql-bin "$bindir/psql" --dbname pgtap --verbose tests/pgtap/*.sql
}

# The same tests through a pooler in transaction mode. pgTAP itself keeps its plan in the session, so each file has a backend of its own.
pooled() (
    scripts/pooler.sh start "$cluster" default_pool_size=1 &&
        eval "$(scripts/pooler.sh env "$cluster")" || exit
    trap 'scripts/pooler.sh stop "$cluster"' EXIT
    status=0
    for test in tests/pgtap/*.sql; do
        "$bindir/psql" --no-psqlrc --quiet --dbname=pgbouncer --command=RECONNECT &&
            pg_prove --psql-bin "$bindir/psql" --dbname pgtap --verbose "$test" || status=1
    done
    exit "$status"
)

cli() { bats --tap --timing tests/cli; }

# What the benchmark's report makes of samples; nothing is measured.
bench() { bats --tap tests/bench; }

# The examples on real parts: drivers of other languages, nginx, RabbitMQ. A cluster of its own.
examples() { scripts/examples.sh; }

# The checkout in a browser.
browser() { scripts/browser.sh; }

# Random calls under a nemesis, and the same against libraries that lack a check. A cluster of its own.
chaos() { scripts/chaos.sh --tap; }

# These tests make clusters of their own, as the user that may run a server, who need not be able to read the checkout.
# All they leave is in the cluster's directory and goes with it; the servers' logs are kept. One follows docs/operations.md.
recovery() {
    local work=$PGHOST/recovery status=0
    cp -R tests/recovery "$work" && cp docs/operations.md "$work" && mkdir "$work/tmp" || return
    if is_root; then chown -R postgres: "$work"; fi
    (
        cd "$work" && as_server env PATH="$bindir:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 TMPDIR="$work/tmp" \
            TESTDIR="$work" TESTDATADIR="$work/tmp_check" TESTLOGDIR="$work/tmp_check/log" \
            PG_REGRESS="$pgxs/test/regress/pg_regress" \
            ${IDEM_KILLS:+IDEM_KILLS="$IDEM_KILLS"} ${IDEM_FAULTS:+IDEM_FAULTS="$IDEM_FAULTS"} ${IDEM_SEED:+IDEM_SEED="$IDEM_SEED"} \
            ${IDEM_ALTERATIONS:+IDEM_ALTERATIONS="$IDEM_ALTERATIONS"} ${IDEM_COMBINATIONS:+IDEM_COMBINATIONS="$IDEM_COMBINATIONS"} \
            prove --verbose -I "$pgxs/test/perl" -I "$work" ./*.pl
    ) || status=$?
    cp -R "$work/tmp_check/log" "$logs/recovery" || true
    return "$status"
}

# --- Counting: each prints "passed failed skipped" from a log --------------------------------------------------------------

count_ctest() {
    awk '/\*\*\*Skipped/ {skipped++}
         / tests failed out of / {failed = $4; all = $NF}
         END {print all - failed - skipped, failed + 0, skipped + 0}' "$1"
}

count_pg_regress() {
    awk '{sub(/^[# ]+/, "")}
         /^All [0-9]+ tests passed/ {all = $2}
         /^[0-9]+ of [0-9]+ tests failed/ {failed = $1; all = $3}
         END {print all - failed, failed + 0, 0}' "$1"
}

# A file that ends before its plan does counts as one failure, if no test of its failed.
count_tap() {
    awk '/^ok / && / # [Ss][Kk][Ii][Pp]/ {skipped++; next}
         /^ok / {passed++}
         /^not ok / && !/ # TODO/ {failed++}
         ended_early && /^  (Non-zero|Parse errors)/ {failed++}
         {ended_early = / \(Wstat: .* Failed: 0\)$/}
         END {print passed + 0, failed + 0, skipped + 0}' "$1"
}

# --- Verdicts --------------------------------------------------------------------------------------------------------------

record() {
    local name=$1 passed=$2 failed=$3 skipped=$4
    table+=("$(printf '%-10s %7d %7d %8d' "$name" "$passed" "$failed" "$skipped")")
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
}

# All that someone who sees nothing but this output needs.
show_failure() {
    local name=$1 log=$logs/$1.log diffs=build/$1/regression.diffs test
    echo "--- $name: from build/check/$name.log"
    grep -E -A 8 '^not ok|^psql:.*(ERROR|FATAL):' "$log" | head -n 100 || true
    echo "--- $name: its end"
    tail -n 40 "$log"
    if [ -s "$diffs" ]; then
        echo "--- $diffs"
        head -n 200 "$diffs"
    fi
    sed -n 's|^\./\(.*\)\.pl *(Wstat: .*|\1|p' "$log" | while read -r test; do
        echo "--- the end of build/check/recovery/regress_log_$test"
        tail -n 20 "$logs/recovery/regress_log_$test"
    done
    echo "---"
}

# What the suites stand on: counted only when it fails, and then it is the end.
require() {
    local name=$1
    shift
    printf '%-10s ' "$name"
    SECONDS=0
    if run "$@" >"$logs/$name.log" 2>&1; then
        echo "done ($SECONDS s)"
    else
        echo "FAILED ($SECONDS s)"
        show_failure "$name"
        record "$name" 0 1 0
        summarize
    fi
}

# suite NAME COUNTER TESTS: runs the function NAME, if a file matches TESTS.
suite() {
    local name=$1 counter=$2 tests=$3 status=0 passed failed skipped
    printf '%-10s ' "$name"
    if ! compgen -G "$tests" >/dev/null; then
        echo "skipped: there is no $tests"
        record "$name" 0 0 1
        return
    fi
    SECONDS=0
    run "$name" >"$logs/$name.log" 2>&1 || status=$?
    read -r passed failed skipped < <("$counter" "$logs/$name.log")
    # A suite can fail without a failed test: it may not even have started.
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    record "$name" "$passed" "$failed" "$skipped"
    if [ "$failed" -eq 0 ]; then
        echo "passed: $passed ($SECONDS s)"
    else
        echo "FAILED: $failed, passed: $passed ($SECONDS s)"
        show_failure "$name"
    fi
}

summarize() {
    printf '\n%-10s %7s %7s %8s\n' suite passed failed skipped
    printf '%s\n' "${table[@]}"
    local skipped=
    if [ "$total_skipped" -gt 0 ]; then skipped=", $total_skipped skipped"; fi
    printf '\n%s passed, %s failed%s\n' "$total_passed" "$total_failed" "$skipped"
    if [ "$total_failed" -gt 0 ]; then exit 1; fi
    exit 0
}

# ---------------------------------------------------------------------------------------------------------------------------

scripts/deps.sh --examples
bindir=$("$PG_CONFIG" --bindir)
pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
rm -rf build/check build/regress build/isolation
mkdir -p "$logs"
trap stop_everything EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

require build build
require cluster start_cluster
eval "$(scripts/cluster.sh env "$cluster")"

suite tree count_tap 'tests/tree/*.bats'
suite unit count_ctest 'tests/unit/*.cpp'
suite fuzz count_ctest 'tests/fuzz/*.cpp'
suite regress count_pg_regress 'tests/regress/sql/*.sql'
suite isolation count_pg_regress 'tests/isolation/specs/*.spec'
suite pgtap count_tap 'tests/pgtap/*.sql'
suite pooled count_tap 'tests/pgtap/*.sql'
suite client count_ctest 'tests/client/*_test.cpp'
suite cli count_tap 'tests/cli/*.bats'
suite bench count_tap 'tests/bench/*.bats'
suite consumer count_tap 'tests/consumer/run.sh'
suite examples count_tap 'tests/examples/*.bats'
suite browser count_tap 'tests/browser/*.test.js'
suite chaos count_tap 'tests/chaos/main.cpp'
if [ "$selection" = all ]; then suite recovery count_tap 'tests/recovery/*.pl'; fi
summarize
