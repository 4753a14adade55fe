#!/usr/bin/env bash
# Builds and installs what the demo needs and runs it on the throw-away cluster "demo", which is gone afterwards. Arguments go
# to idem-demo.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

child=

# The way out may be an interrupt in the middle of the load.
clean_up() {
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    scripts/cluster.sh stop demo
}

# In the background, so that bash acts on an interrupt at once and not when the load is over.
run() {
    local status=0
    "$@" &
    child=$!
    wait "$child" || status=$?
    child=
    return "$status"
}

build() {
    scripts/deps.sh
    echo "building and installing idem"
    scripts/install.sh
    mkdir -p build
    { cmake -S . -B build/cmake && cmake --build build/cmake --target idem-demo --parallel "$(nproc)"; } >build/demo.log 2>&1 || {
        cat build/demo.log >&2
        exit 1
    }
}

# A cluster of a demo that was killed may have an older build of the extension loaded.
start_cluster() {
    scripts/cluster.sh stop demo
    scripts/cluster.sh start demo
    create_idem demo
    psql --command='CREATE TABLE charges (amount int)'
}

psql() { scripts/cluster.sh psql demo --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "$@"; }

by_hand() {
    psql --echo-queries --tuples-only --no-align --file=- <<'SQL'
BEGIN;
SELECT outcome FROM idem_begin('pay-1', idem_fingerprint('{"amount": 1999}'));
INSERT INTO charges VALUES (1999);
SELECT FROM idem_complete('pay-1', '{"receipt": 7}', 201);
COMMIT;
SELECT outcome, status_code, response FROM idem_begin('pay-1', idem_fingerprint('{"amount": 1999}'));
SELECT outcome FROM idem_begin('pay-1', idem_fingerprint('{"amount": 2999}'));
SELECT idem_claim('mail-1');
SELECT idem_claim('mail-1');
SQL
}

build
at_exit clean_up
start_cluster

echo "By hand: a claim, a duplicate that gets the stored response, the same key for another request,"
echo "and a bare claim."
echo
by_hand
echo
eval "$(scripts/cluster.sh env demo)"
run build/cmake/bin/idem-demo "$@"
