#!/usr/bin/env bash
# Chaos: clients call idem on few hot keys while a nemesis cancels, terminates, cuts and kills; what they saw is checked against
# the contract. On a private cluster that is gone afterwards.
#
#   chaos.sh [argument ...]          run it; the arguments are those of idem-chaos (--minutes, --seed, --clients, --nemeses …)
#   chaos.sh --break [NAME ...]      leave one check at a time out of the library (tests/chaos/breaks; all unless named): each must be
#                                    found within three minutes
#   chaos.sh --tap                   a short run, then the breaks, reported as TAP
#   chaos.sh --portable ...          each of these on the portable edition (whose breaks are in tests/chaos/portable_breaks)
#
# The portable edition has no rings: their scopes are ordinary ones, and no window is opened. It has no worker: in its place a nemesis
# calls idem_sweep(). Statistics, and idem_in_flight's uncommitted holders, which it lacks too, are asked for on neither edition.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
unset PGHOST PGPORT PGUSER PGDATABASE # no server but our own

edition=extension kept=build/chaos breaks=$PWD/tests/chaos/breaks
if [ "${1:-}" = --portable ]; then
    shift
    edition=portable kept=build/chaos-portable breaks=$PWD/tests/chaos/portable_breaks
fi
cluster=chaos-$$
program=$PWD/build/cmake/bin/idem-chaos
broken=

finish() {
    cp "${PGHOST:-}/server.log" "$kept/server.log" 2>/dev/null || true
    scripts/cluster.sh stop "$cluster" || true
    if [ -n "$broken" ]; then rm -rf "$broken"; fi
}
at_exit finish

build() {
    mkdir -p "$kept"
    if ! { scripts/deps.sh && { [ "$edition" = portable ] || scripts/install.sh; } && cmake -S . -B build/cmake &&
        cmake --build build/cmake --target idem-chaos --parallel "$(nproc)"; } >"$kept/build.log" 2>&1; then
        tail -n 40 "$kept/build.log" >&2
        exit 1
    fi
}

# fsync: killing processes loses nothing that was handed to the operating system. A statement that runs into the timeout is a
# finding; what waits, waits for somebody whom the coordinator or the server ends long before.
start_cluster() {
    scripts/cluster.sh start "$cluster" fsync=off synchronous_commit=on max_prepared_transactions=50 max_connections=100 \
        statement_timeout=30s deadlock_timeout=100ms log_line_prefix='%m [%p] %b %e ' \
        autovacuum_naptime=1s idem.outbox_notify=off "$@" || return 1
    eval "$(scripts/cluster.sh env "$cluster")"
}

# --- The editions --------------------------------------------------------------------------------------------------------------------

# The program creates the extension.
start_extension() { start_cluster shared_preload_libraries=idem; }

# Only the file with the check is compiled again.
break_extension() {
    make --silent --directory="$broken" --jobs="$(nproc)" with_llvm=no idem.so && chmod a+r "$broken/idem.so"
}

# The extension as it is, its functions those of the broken library (which is loaded on first use: one server cannot have both, and
# CREATE EXTENSION needs the other).
start_broken_extension() {
    start_cluster && "$bindir/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --set=library="$broken/idem.so" <<'SQL'
CREATE EXTENSION idem;
UPDATE pg_proc SET probin = :'library' WHERE probin = '$libdir/idem';
SQL
}

start_portable() { start_portable_of "$PWD"; }

break_portable() { make --silent --directory="$broken" portable; }

start_broken_portable() { start_portable_of "$broken"; }

# start_portable_of TREE: as that tree has it.
start_portable_of() {
    # shellcheck source=scripts/lib.sh
    start_cluster && (source "$1/scripts/lib.sh" && install_portable postgres) &&
        "$bindir/psql" --no-psqlrc --quiet --command='ALTER DATABASE postgres SET search_path = public, idem'
}

# -------------------------------------------------------------------------------------------------------------------------------------

run_program() { "$program" --history "$kept/history.txt" "$@" </dev/null; }

# Outside the tree. Directly under /tmp: the server's user has to read it.
build_broken() {
    local name=$1
    broken=$(mktemp -d /tmp/idem-break-XXXXXX)
    chmod 755 "$broken" &&
        cp -a Makefile extension sql scripts "$broken" &&
        { patch --directory="$broken" --strip=1 <"$breaks/$name.patch" && "break_$edition"; } >"$kept/build-$name.log" 2>&1
}

# Cuts and cancels suffice, and leave more time to race.
find_break() {
    local name=$1 status=0 since=$SECONDS
    if ! build_broken "$name" || ! "start_broken_$edition"; then
        echo "not ok - without its check, $name: not tried, see $kept/build-$name.log"
        scripts/cluster.sh stop "$cluster"
        rm -rf "$broken"
        broken=
        return 1
    fi
    run_program --seconds 180 --round 4 --nemeses cut,cancel,terminate,prepared,rings ${SEED:+--seed "$SEED"} >"$kept/$name.log" 2>&1 || status=$?
    scripts/cluster.sh stop "$cluster"
    rm -rf "$broken"
    broken=
    # 1: a violation of the contract. Anything else is not what was asked for.
    if [ "$status" -eq 1 ] && grep -q '^first violation' "$kept/$name.log"; then
        echo "ok - without its check, $name: $(grep '^first violation' "$kept/$name.log") ($((SECONDS - since)) s with the build)"
    else
        tail -n 40 "$kept/$name.log" | sed 's/^/# /'
        echo "not ok - without its check, $name: not found within three minutes, see $kept/$name.log"
        return 1
    fi
}

find_breaks() {
    local name status=0
    if [ $# -eq 0 ]; then set -- "$breaks"/*.patch; fi
    for name in "$@"; do
        name=$(basename "$name" .patch)
        find_break "$name" || status=1
    done
    return "$status"
}

report_as_tap() {
    local status=0
    "start_$edition"
    if run_program --seconds 75 >"$kept/run.log" 2>&1; then
        sed 's/^/# /' "$kept/run.log"
        echo "ok - no violation of the contract"
    else
        sed 's/^/# /' "$kept/run.log"
        # What was found stands in the line, which some see alone.
        echo "not ok - no violation of the contract: $(grep -A 1 '^VIOLATION' "$kept/run.log" | head -n 6 | tr '\n' ' ')see $kept"
        status=1
    fi
    scripts/cluster.sh stop "$cluster"
    find_breaks || status=1
    echo "1..$(($(find "$breaks" -name '*.patch' | wc -l) + 1))"
    return "$status"
}

bindir=$("$PG_CONFIG" --bindir)
build
case ${1:-} in
    --break) shift; find_breaks "$@" ;;
    --tap) report_as_tap ;;
    *) "start_$edition"; run_program "$@" ;;
esac
