#!/usr/bin/env bash
# Builds with warnings as errors, installs, and runs suites against private clusters. Suites that have clusters of their own run side by
# side. Logs are kept in build/check.
#
#   check.sh quick      what guards the guarantees of the README: `make check`
#   check.sh rest       every other suite that fits the time
#   check.sh all        both: `make check-all`
#   check.sh portable   the suites of the portable edition alone: `make check-portable`
#   check.sh long       what takes hours: `make check-long`
#   check.sh [036 ...] [SUITE ...]   these recovery tests and suites, one after the other: `check.sh 036 pgtap isolation`
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

build=build_all
logs=$PWD/build/check
cluster=check-$$
clusters=("$cluster" "client-$$" "pauses-$$" "cuts-$$" "cli-$$" "integrations-$$" "conformance-$$" "portable-$$" "portable-14-$$" "portable-16-$$" "scan-$$")
lanes=()
chosen=()

# Whatever way out is taken, nothing that was started stays.
stop_everything() {
    local lane name
    for lane in "${lanes[@]}"; do end_group TERM "$lane"; done
    cp "${PGHOST:-}/server.log" "$logs/server.log" 2>/dev/null || true
    for name in "${clusters[@]}"; do scripts/cluster.sh stop "$name"; done
}

# --- What the suites run -------------------------------------------------------------------------------------------------

# `make check` needs neither bitcode nor the programs of the other suites.
build() {
    scripts/install.sh WERROR=1 with_llvm=no && configure &&
        cmake --build build/cmake --parallel "$(nproc)" --target idem-unit idem-cli-unit idem-client-tests idem-cli &&
        list_tests
}

# The bitcode is compiled with the whole; no test runs it.
build_rest() { scripts/install.sh WERROR=1 with_llvm=no && build_programs; }

build_all() { scripts/install.sh WERROR=1 && build_programs; }

build_programs() { configure && cmake --build build/cmake --parallel "$(nproc)" && list_tests; }

# The first ctest after a build asks the programs for their tests and writes the lists. Two lanes must not do so at the same time: one of
# them would read a list that the other has not finished, and leave out tests.
list_tests() { ctest --test-dir build/cmake --show-only >/dev/null; }

configure() { cmake -S . -B build/cmake -DCMAKE_COMPILE_WARNING_AS_ERROR=ON; }

# fsync: the cluster does not outlive the check. statement_timeout: a test that hangs is to fail.
start_cluster() { scripts/cluster.sh start "$1" fsync=off max_prepared_transactions=10 statement_timeout=5min; }

unit() { ctest --test-dir build/cmake --output-on-failure --label-regex unit; }

# The checker that judges what clients saw in a run of chaos.
judge() { ctest --test-dir build/cmake --output-on-failure --label-regex judge; }

# The fuzz targets on their seeds, with AddressSanitizer.
fuzz() { ctest --test-dir build/cmake --output-on-failure --label-regex fuzz; }

# on_cluster NAME COMMAND ...: on a cluster of its own, and in a subshell, so that the lane's other suites do not meet its environment.
on_cluster() (
    name=$1-$$
    shift
    start_cluster "$name" && eval "$(scripts/cluster.sh env "$name")" && "$@"
)

# test_client NAME [ARGUMENT of ctest ...]: in a cluster and a database of that name. Where these tests stop servers, they make them inside
# the cluster's directory.
test_client() { on_cluster "$1" ctest_client "$@"; }

ctest_client() {
    local database=$1
    shift
    "$bindir/createdb" "$database" &&
        PGDATABASE=$database ctest --test-dir build/cmake --output-on-failure --label-regex client --parallel "$(nproc)" "$@"
}

client() { test_client client; }

# What the sources must not have in them.
tree() { bats --tap tests/tree; }

# What tools say of the sources without building them.
lint() { scripts/lint.sh; }

# The documents as a site, without dead links.
docs_site() { scripts/docs-site.sh; }

# What two sessions do to each other when one is held at a point of the code.
pauses() { on_cluster pauses tests/pauses/run.sh; }

# As others use the client: from the installed package.
consumer() { tests/consumer/run.sh build/cmake; }

regress() { make --silent installcheck ISOLATION=; }

isolation() { make --silent installcheck REGRESS=; }

# The same without idem's own descent of the B-tree.
isolation_scan_long() { on_cluster scan env PGOPTIONS='-c idem.index_descent=off' make --silent installcheck REGRESS=; }

pgtap() { make_pgtap_database && pg_prove --psql-bin "$bindir/psql" --dbname pgtap --verbose tests/pgtap/*/*.sql; }

# The same tests through a pooler in transaction mode. pgTAP itself keeps its plan in the session, so each file has a backend of its own.
pooled() (
    make_pgtap_database && scripts/pooler.sh start "$cluster" default_pool_size=1 &&
        eval "$(scripts/pooler.sh env "$cluster")" || exit
    trap 'scripts/pooler.sh stop "$cluster"' EXIT
    status=0
    for test in tests/pgtap/*/*.sql; do
        "$bindir/psql" --no-psqlrc --quiet --dbname=pgbouncer --command=RECONNECT &&
            pg_prove --psql-bin "$bindir/psql" --dbname pgtap --verbose "$test" || status=1
    done
    exit "$status"
)

# Restarts its cluster.
cli() { on_cluster cli test_cli; }

test_cli() { bats --tap --timing tests/cli; }

# on_portable COMMAND ...: on a cluster whose databases have the portable edition from their template.
on_portable() { on_cluster portable with_portable "$@"; }

with_portable() { install_portable template1 && "$@"; }

portable_pgtap() { on_portable pgtap_portable; }

pgtap_portable() { make_pgtap_database && IDEM_PSQL=$bindir/psql pg_prove --psql-bin "$PWD/tests/portable/psql" --dbname pgtap --verbose tests/pgtap/*/*.sql; }

portable_isolation() { on_portable isolation_portable; }

isolation_portable() {
    "$bindir/createdb" isolation && "$bindir/psql" --no-psqlrc --quiet --dbname=isolation --command='ALTER DATABASE isolation SET search_path = public, idem; GRANT USAGE ON SCHEMA idem TO public' && tests/portable/isolation
}

# on_server MAJOR COMMAND ...: with another server in the place of this machine's. It lives outside of the checkout, which the user that runs
# servers need not be able to read.
on_server() (
    status=0 home=$(mktemp -d /tmp/idem-server.XXXXXX) || exit
    trap 'rm -rf "$home"' EXIT
    PG_CONFIG=$(tests/portable/server "$1" "$home") || status=$?
    if [ "$status" -eq 69 ]; then echo "ok 1 # SKIP there is no PostgreSQL $1 to fetch"; exit; fi
    [ "$status" -eq 0 ] || exit "$status"
    bindir=$("$PG_CONFIG" --bindir)
    on_cluster "portable-$1" with_portable "${@:2}"
)

portable_14_long() { on_server 14 pgtap_portable; }

portable_16_long() { on_server 16 pgtap_portable; }

# Each package installs the edition by itself, and so do the migration tools.
installs_17_long() { on_server 17 install_by_packages; }

installs_18_long() { on_server 18 install_by_packages; }

install_by_packages() {
    local status=0
    export IDEM_PORTABLE=1
    tests/integrations/node/run.sh core || status=1
    tests/integrations/python/run.sh package || status=1
    tests/integrations/java/run.sh functions || status=1
    return "$status"
}

# Installing it, taking it away, its rights, dumping it, and moving data between the editions.
portable_install() { on_portable bats --tap tests/portable/*.bats; }

# As an ordinary role: the owner of its database.
portable_docs() { make --silent portable && on_cluster portable python3 tests/docs/examples.py --portable; }

# The cut points are in the long check.
portable_client() { on_portable ctest_client client --exclude-regex CutPoints; }

portable_cli() { on_portable test_cli; }

# What the benchmark's report makes of samples; nothing is measured.
bench() { bats --tap tests/bench; }

# What the pages show is what happens, and the reference is that of the catalog.
docs() {
    local status=0
    python3 tests/docs/examples.py || status=1
    scripts/reference.py --check || status=1
    return "$status"
}

# The examples on real parts: nginx, RabbitMQ, webhooks. A cluster of its own.
examples() { scripts/examples.sh; }

# The checkout in a browser.
browser() { scripts/browser.sh; }

# The recipes of docs/orm.md with the real packages: of three ORMs here, of all in orm_long. A cluster of its own.
orm() { scripts/orm.sh sequelize sqlalchemy active-record; }

# Every function for applications from nine drivers, directly and through a pooler. A cluster of its own.
drivers() { scripts/drivers.sh; }

# The packages for frameworks: one framework of each language, and one SDK of MCP, here, all of them in integrations_long.
integrations_node() { on_cluster integrations env IDEM_MCP=v2-http tests/integrations/node/run.sh core agents express; }

integrations_python() { on_cluster integrations tests/integrations/python/run.sh package vectors flows work tools fastapi; }

integrations_java() { on_cluster integrations tests/integrations/java/run.sh vectors functions jetty; }

integrations_go() { on_cluster integrations tests/integrations/go/run.sh; }

# `idem http-test`: against a right server, planted faults, and the reference app of a framework for each language.
conformance() { on_cluster conformance env PROFILES=ietf tests/conformance/run.sh faults express pglite fastapi jetty go rack php; }

# Random calls under a nemesis, and the same against libraries that lack a check. A cluster of its own.
chaos() { scripts/chaos.sh --tap; }

portable_chaos() { scripts/chaos.sh --portable --tap; }

# Of the recovery tests, those of a guarantee: crash, standby, dump and restore, upgrade, races, tokens, locks, ids, kills, torn pages,
# the outbox, privileges, the wire protocol, PITR, prepared holders.
guards=(001 003 004 005 006 010 012 013 015 021 025 026 027 033 034 035 041 042 045 046)

recovery() { prove_recovery recovery "${guards[@]/%/_*.pl}"; }

recovery_rings() { prove_recovery recovery_rings '*_rings_*.pl'; }

recovery_rest() {
    local test files=()
    for test in tests/recovery/*.pl; do
        test=${test##*/}
        [[ $test == *_rings_* || " ${guards[*]} " == *" ${test%%_*} "* ]] || files+=("$test")
    done
    prove_recovery recovery_rest "${files[@]}"
}

recovery_chosen() { prove_recovery recovery_chosen "${chosen[@]}"; }

# prove_recovery NAME PATTERN ...: these tests make clusters of their own, as the user that may run a server, who need not be able to
# read the checkout. All they leave is in the cluster's directory and goes with it; the servers' logs are kept. One follows
# docs/operations.md. A session in the background may last for PG_TEST_TIMEOUT_DEFAULT seconds in all, which are 180 by default: too few
# on a busy machine.
prove_recovery() {
    local name=$1 work=$PGHOST/$1 status=0
    shift
    cp -R tests/recovery "$work" && cp docs/operations.md "$work" && mkdir "$work/tmp" || return
    if is_root; then chown -R postgres: "$work"; fi
    (
        # shellcheck disable=SC2086,SC2068 # patterns of the tests' directory
        cd "$work" && as_server env PATH="$bindir:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 TMPDIR="$work/tmp" \
            TESTDIR="$work" TESTDATADIR="$work/tmp_check" TESTLOGDIR="$work/tmp_check/log" \
            PG_TEST_TIMEOUT_DEFAULT="${PG_TEST_TIMEOUT_DEFAULT:-900}" PG_REGRESS="$pgxs/test/regress/pg_regress" \
            ${IDEM_KILLS:+IDEM_KILLS="$IDEM_KILLS"} ${IDEM_FAULTS:+IDEM_FAULTS="$IDEM_FAULTS"} ${IDEM_SEED:+IDEM_SEED="$IDEM_SEED"} \
            ${IDEM_ALTERATIONS:+IDEM_ALTERATIONS="$IDEM_ALTERATIONS"} ${IDEM_COMBINATIONS:+IDEM_COMBINATIONS="$IDEM_COMBINATIONS"} \
            ${LEAK_CALLS:+LEAK_CALLS="$LEAK_CALLS"} ${LEAK_ONLY:+LEAK_ONLY="$LEAK_ONLY"} \
            prove --verbose --timer -I "$pgxs/test/perl" -I "$work" $@
    ) || status=$?
    cp -R "$work/tmp_check/log" "$logs/$name" || true
    return "$status"
}

# --- What takes hours ------------------------------------------------------------------------------------------------------

chaos_long() { scripts/chaos.sh --minutes 10 && echo 'ok 1 - ten minutes of chaos'; }

# Every allocation of every call; every alteration, committed.
faults_long() { IDEM_FAULTS=all IDEM_ALTERATIONS=all prove_recovery faults_long 028_faults.pl 036_altered_tables.pl; }

# What must hold at each point where a connection can break; `client` cuts each once.
cuts_long() { IDEM_CUT_REPETITIONS=100 test_client cuts --tests-regex CutPoints; }

portable_cuts_long() { on_portable ctest_client cuts --tests-regex CutPoints; }

portable_chaos_long() { scripts/chaos.sh --portable --minutes 10 && echo 'ok 1 - ten minutes of chaos on the portable edition'; }

# What calls cost, beside an INSERT, in instructions.
portable_counts_long() { bench/portable_counts.sh; }

orm_long() { scripts/orm.sh all; }

integrations_long() { on_cluster integrations all_integrations; }

# On both editions, and through a pooler, which Node's express-pooled and Java's tomcat9 have by themselves.
all_integrations() {
    local language status=0
    for language in node python java go; do
        tests/integrations/"$language"/run.sh || status=1
        IDEM_PORTABLE=1 tests/integrations/"$language"/run.sh || status=1
    done
    IDEM_POOLED=1 tests/integrations/python/run.sh fastapi-asyncpg django || status=1
    IDEM_POOLED=1 tests/integrations/go/run.sh pq || status=1
    tests/conformance/run.sh || status=1
    IDEM_PORTABLE=1 tests/conformance/run.sh servers || status=1
    IDEM_POOLED=1 PROFILES='ietf acp' tests/conformance/run.sh servers || status=1
    return "$status"
}

# The defects that clang-tidy sees in the sources.
tidy_long() { scripts/tidy.sh; }

# On a server that checks its assertions.
asserts_long() { scripts/asserts.sh; }

webhooks_long() { IDEM_WEBHOOKS=10000 scripts/examples.sh tests/examples/webhooks.bats; }

# Grafana's panels on figures of ten minutes.
dashboard_long() { scripts/dashboard.sh; }

packages_long() { scripts/packages.sh build bookworm,trixie,forky && scripts/packages.sh check && scripts/images.sh check; }

matrix_long() { scripts/matrix.sh; }

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
         /^skipped / {skipped++}
         END {print all - failed, failed + 0, skipped + 0}' "$1"
}

# A file that ends before its plan does counts as one failure, if no test of its failed.
count_tap() {
    awk '/^ok / && / # [Ss][Kk][Ii][Pp]/ {skipped++; next}
         /^1\.\.0 # [Ss][Kk][Ii][Pp]/ {skipped++}
         /^ok / {passed++}
         /^not ok / && !/ # TODO/ {failed++}
         ended_early && /^  (Non-zero|Parse errors)/ {failed++}
         {ended_early = / \(Wstat: .* Failed: 0\)$/}
         END {print passed + 0, failed + 0, skipped + 0}' "$1"
}

count_matrix() { sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)\{0,1\}$/\1 \2 0\4/p' "$1" | tail -n 1; }

# --- Verdicts --------------------------------------------------------------------------------------------------------------

# record NAME PASSED FAILED SKIPPED SECONDS. What never got so far counts as one failure.
record() { echo "$*" >"$logs/$1.result"; }

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
    sed -n 's|^\./\{0,1\}\([0-9][^ ]*\)\.pl *(Wstat: .*|\1|p; s|^\([0-9][^ ]*\)\.pl *(Wstat: .*|\1|p' "$log" | while read -r test; do
        echo "--- the end of build/check/$name/regress_log_$test"
        tail -n 20 "$logs/$name/regress_log_$test"
    done
    echo "---"
}

# What the suites stand on: when it fails, that is the end.
require() {
    local name=$1 since=$SECONDS
    shift
    if "$@" >"$logs/$name.log" 2>&1 </dev/null; then
        record "$name" 0 0 0 $((SECONDS - since))
        printf '%-13s done (%s s)\n' "$name" $((SECONDS - since))
    else
        record "$name" 0 1 0 $((SECONDS - since))
        printf '%-13s FAILED (%s s)\n' "$name" $((SECONDS - since))
        show_failure "$name"
        summarize
    fi
}

# The function NAME, whose log its counter reads.
suite() {
    local name=$1 counter=${counters[$1]} since=$SECONDS status=0 passed failed skipped
    "$name" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    read -r passed failed skipped < <("$counter" "$logs/$name.log")
    # A suite can fail without a failed test: it may not even have started.
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
    record "$name" "$passed" "$failed" "$skipped" $((SECONDS - since))
    if [ "$failed" -eq 0 ]; then
        printf '%-13s passed: %s (%s s)\n' "$name" "$passed" $((SECONDS - since))
    else
        printf '%-13s FAILED: %s, passed: %s (%s s)\n%s\n' "$name" "$failed" "$passed" $((SECONDS - since)) "$(show_failure "$name")"
    fi
}

lane() {
    local name
    for name in "$@"; do suite "$name"; done
}

# side_by_side "SUITE ..." ...: the suites of one argument one after the other, the arguments at the same time. Each lane is a process
# group, so that an interrupt can end all of it, and in the background, so that bash acts on the interrupt at once.
side_by_side() {
    local suites pid
    set -m
    for suites in "$@"; do
        # shellcheck disable=SC2086 # words
        lane $suites &
        lanes+=($!)
    done
    set +m
    for pid in "${lanes[@]}"; do wait "$pid" || true; done
    lanes=()
    # shellcheck disable=SC2048 # words
    for suites in $*; do [ -f "$logs/$suites.result" ] || record "$suites" 0 1 0 0; done
}

# The failed tests of a suite, from its log: of TAP, of ctest, of pg_regress, and files that ended early.
failed_tests() {
    sed -n -E "s/^not ok (.*)/\1/p; s/^[[:space:]]*[0-9]+ - (.*) \((Failed|Timeout|SEGFAULT|Subprocess aborted)\)\$/\1/p; s/^test (.*[^ ]) +\.\.\. FAILED.*/\1/p
        s/^(.*[^ ]) +\(Wstat: .*Failed: 0\)\$/\1 ended early/p" "$1" | awk '!/# TODO/ && ++n <= 20'
}

# The table has the slowest suite first. The names of what failed stand at the end, which some see alone.
summarize() {
    local name rest
    printf '\n%-13s %7s %7s %8s %8s\n' suite passed failed skipped seconds
    cat "$logs"/*.result | sort -k 5,5nr | awk '{printf "%-13s %7d %7d %8d %8d\n", $1, $2, $3, $4, $5}'
    echo
    cat "$logs"/*.result | awk '$3 > 0' | while read -r name rest; do
        failed_tests "$logs/$name.log" | sed "s/^/failed in $name: /"
    done
    cat "$logs"/*.result | awk -v seconds="$SECONDS" '
        {passed += $2; failed += $3; skipped += $4}
        END {
            printf "%d passed, %d failed", passed, failed
            if (skipped) printf ", %d skipped", skipped
            printf " (%d:%02d min)\n", seconds / 60, seconds % 60
            exit failed > 0
        }'
    exit
}

# ---------------------------------------------------------------------------------------------------------------------------

declare -A counters=([unit]=count_ctest [judge]=count_ctest [fuzz]=count_ctest [client]=count_ctest [cuts_long]=count_ctest
    [portable_client]=count_ctest [portable_cuts_long]=count_ctest [portable_isolation]=count_pg_regress [regress]=count_pg_regress [isolation]=count_pg_regress [isolation_scan_long]=count_pg_regress [pauses]=count_pg_regress [matrix_long]=count_matrix)
for name in tree lint tidy_long docs_site packages_long pgtap portable_pgtap portable_14_long portable_16_long installs_17_long installs_18_long portable_cli portable_install portable_docs portable_chaos docs pooled cli bench consumer examples browser orm drivers integrations_node integrations_python integrations_java integrations_go conformance chaos recovery recovery_rings recovery_rest recovery_chosen chaos_long portable_chaos_long portable_counts_long faults_long orm_long integrations_long webhooks_long asserts_long dashboard_long; do
    counters[$name]=count_tap
done

# A lane each: more than two cores need not be there, since most suites wait as much as they compute. A lane's suites may share a
# cluster's name, a copy of npm's packages or build/cmake; those of two lanes do not.
quick=("recovery" "tree lint pgtap docs cli" "client regress isolation unit")
portable="portable_pgtap portable_isolation portable_install portable_docs portable_client portable_cli portable_chaos"
integrations="integrations_node integrations_python integrations_java integrations_go"
rest=("recovery_rest" "docs_site bench pooled consumer examples browser orm drivers $integrations conformance" "judge fuzz recovery_rings pauses chaos $portable")
case ${1:-quick} in
    quick) plan=("${quick[@]}") build=build ;;
    rest) plan=("${rest[@]}") build=build_rest ;;
    all) plan=("${quick[0]} ${rest[0]}" "${quick[1]} ${rest[1]}" "${quick[2]} ${rest[2]}") ;;
    portable) plan=("$portable") ;;
    long) plan=("tidy_long orm_long integrations_long webhooks_long chaos_long portable_chaos_long portable_counts_long portable_14_long portable_16_long installs_17_long installs_18_long isolation_scan_long asserts_long cuts_long portable_cuts_long faults_long dashboard_long packages_long matrix_long") ;;
    *)
        while [[ ${1:-} == [0-9][0-9][0-9] ]]; do chosen+=("$1_*.pl") && shift; done
        for name in "$@"; do
            [[ -v counters[$name] ]] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; echo "Suites: ${!counters[*]}"; exit 2; } >&2
        done
        plan=("${chosen:+recovery_chosen }$*") build=build_rest
        ;;
esac
if [ "$build" = build ]; then scripts/deps.sh; else scripts/deps.sh --examples; fi
SECONDS=0
bindir=$("$PG_CONFIG" --bindir)
pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
rm -rf build/check build/regress build/isolation
mkdir -p "$logs"
at_exit stop_everything

require build "$build"
require cluster start_cluster "$cluster"
eval "$(scripts/cluster.sh env "$cluster")"

side_by_side "${plan[@]}"
summarize
