#!/usr/bin/env bash
# The Go module: its vectors with the race detector, and its functions and examples with lib/pq and pgx, on the cluster of libpq's environment. Prints TAP.
#
#   run.sh [readme|vectors|pq|pgx ...]    all of them, or these
#
# IDEM_PORTABLE=1: on the portable edition. IDEM_POOLED=1: through PgBouncer in transaction mode, which needs a cluster of scripts/cluster.sh.
set -euo pipefail
cd "$(dirname "$0")/../../.."
source scripts/lib.sh

if ! scripts/deps.sh golang-go golang-github-lib-pq-dev golang-github-jackc-pgx-v4-dev golang-github-go-chi-chi-dev golang-github-gin-gonic-gin-dev \
    golang-github-labstack-echo-dev >&2; then
    echo 'ok 1 - go # SKIP its packages cannot be installed here'
    exit
fi
database=integrations_go_$$
psql=("$("$PG_CONFIG" --bindir)/psql" --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1)
cluster=$(basename "$PGHOST")
direct_host=$PGHOST direct_port=$PGPORT
work=$(mktemp -d) pooler=''

# shellcheck disable=SC2317 # called by at_exit
finish() {
    if [ -n "$pooler" ]; then scripts/pooler.sh stop "$cluster" || true; fi
    PGHOST=$direct_host PGPORT=$direct_port "${psql[@]}" --dbname=postgres --command="DROP DATABASE IF EXISTS $database WITH (FORCE)" || true
    rm -rf "$work"
}
at_exit finish

export GOCACHE=$PWD/build/integrations/go-cache GOFLAGS=-mod=mod GOPROXY=off IDEM_VECTORS=$PWD/tests/vectors
module=$(scripts/integrations.sh go)

# go_test NAME ARGUMENT ...: as TAP.
go_test() {
    local status=0
    go test -v -timeout 10m "${@:2}" >"$work/log" 2>&1 || status=$?
    awk -v name="$1" '/^ *--- (PASS|FAIL|SKIP): / {print ($2 == "FAIL:" ? "not ok" : "ok") " - " name ": " $3 ($2 == "SKIP:" ? " # SKIP no form in Go" : "")}' "$work/log"
    if [ "$status" -ne 0 ]; then sed 's/^/# /' "$work/log" && echo "not ok - $1" && failed=1; fi
}

# The README's first program.
test_readme() {
    local home=$work/readme
    mkdir -p "$home/src/example.org" && cp -R "$module" "$home/src/example.org/idem"
    sed -n '/^```go$/,/^```$/p; /^```$/q' integrations/go/README.md | sed '/^```/d' >"$home/main.go"
    if (cd "$home" && GO111MODULE=off GOPATH=$home:/usr/share/gocode go vet main.go) >"$work/vet" 2>&1; then echo 'ok - readme'; else sed 's/^/# /' "$work/vet" && echo 'not ok - readme' && failed=1; fi
}

test_vectors() {
    (cd "$module" && test -z "$(gofmt -l .)" && go vet ./...) >"$work/vet" 2>&1 || { sed 's/^/# /' "$work/vet" && echo 'not ok - gofmt, go vet' && failed=1; }
    cd "$module" && go_test vectors -race . && cd - >/dev/null
}

# With Debian's drivers, which are no modules.
test_driver() {
    local here=tests/integrations/go home=$work/$1/src/example.org/idem
    mkdir -p "$(dirname "$home")"
    cp -R "$module" "$home" && cp $here/functions_test.go "$here/driver_$1_test.go" "$home"
    if [ "$1" = pq ]; then cp $here/routers_test.go "$home"; fi
    "${psql[@]}" --command='DROP TABLE IF EXISTS orders, tickets; CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)' \
        --command="TRUNCATE idem.idem_keys, idem.idem_locks, idem.idem_rates" --file=$here/tickets.sql
    cd "$home" && GO111MODULE=off GOPATH=$work/$1:/usr/share/gocode go_test "$1" -race . && cd - >/dev/null
}

failed=0
"${psql[@]}" --dbname=postgres --command="CREATE DATABASE $database"
export PGDATABASE=$database
install_idem "$database" >&2
if [ -n "${IDEM_POOLED:-}" ]; then
    scripts/pooler.sh start "$cluster" default_pool_size=10 >&2
    pooler=started
    eval "$(scripts/pooler.sh env "$cluster")"
fi
[ $# -gt 0 ] || set -- readme vectors pq pgx
for suite; do
    case $suite in
        readme) test_readme ;;
        vectors) test_vectors ;;
        pq | pgx) test_driver "$suite" ;;
        *)
            sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
            exit 2
            ;;
    esac
done
exit "$failed"
