#!/usr/bin/env bash
# Builds the shop of examples/checkout, starts it on a throw-away cluster together with its gateway, and prints where it is:
# "ready http://127.0.0.1:PORT". Ctrl-C, or the end of whoever started it, stops all of it.
#
#   --port N           where to listen; 0: any port that is free (CHECKOUT_PORT, 8080; with --test 0)
#   --cluster NAME     the cluster's name (CHECKOUT_CLUSTER, checkout)
#   --hold SECONDS     how long the stock is kept for an order that is not paid (30)
#   --test             allow what only tests may do
#   --once             start, ask for each page, stop
#   --no-build         it is built and installed
#   --ready-file FILE  write the URL into FILE, too, when all is up
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

parent=$PPID
port=${CHECKOUT_PORT:-} cluster=${CHECKOUT_CLUSTER:-checkout} hold=30 ready_file=
test=() once='' build=1
children=()

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

while [ $# -gt 0 ]; do
    case $1 in
        --test) test=(--test) ;;
        --once) once=1 ;;
        --no-build) build='' ;;
        --port | --cluster | --hold | --ready-file)
            [ $# -ge 2 ] || usage
            case $1 in
                --port) port=$2 ;;
                --cluster) cluster=$2 ;;
                --hold) hold=$2 ;;
                --ready-file) ready_file=$2 ;;
            esac
            shift
            ;;
        *) usage ;;
    esac
    shift
done
if [ -z "$port" ]; then port=$([ ${#test[@]} -gt 0 ] && echo 0 || echo 8080); fi

clean_up() {
    local child
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    for child in "${children[@]}"; do wait "$child" 2>/dev/null || true; done
    scripts/cluster.sh stop "$cluster"
}

build() {
    scripts/deps.sh
    echo "building and installing idem"
    scripts/install.sh
    mkdir -p build
    {
        cmake -S . -B build/cmake &&
            cmake --build build/cmake --target idem-checkout --target idem-checkout-gateway --parallel "$(nproc)"
    } >build/checkout.log 2>&1 || {
        cat build/checkout.log >&2
        exit 1
    }
}

# A cluster of a shop that was killed may have an older build of the extension loaded.
start_cluster() {
    scripts/cluster.sh stop "$cluster"
    scripts/cluster.sh start "$cluster"
    eval "$(scripts/cluster.sh env "$cluster")"
    create_idem "$cluster"
    scripts/cluster.sh psql "$cluster" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null \
        --command='SET client_min_messages = warning' --file=examples/checkout/shop.sql
}

# The programs say when they are up. Each line is read from a pipe of its own, and what follows it goes nowhere.
start_gateway() {
    exec 3< <(exec build/cmake/bin/idem-checkout-gateway "${test[@]}")
    children+=($!)
    read -r gateway <&3
}

start_shop() {
    exec 4< <(exec build/cmake/bin/idem-checkout --gateway "$gateway" --pages examples/checkout/pages --port "$port" --hold "$hold" \
        "${test[@]}")
    shop=$!
    children+=("$shop")
    read -r ready <&4
}

# A parent that is killed cannot say so; whoever adopts this script has another number.
watch_parent() {
    while grep -q "^PPid:[[:space:]]*$parent\$" /proc/$$/status; do sleep 1; done
    kill -TERM $$
}

try_pages() {
    local url=${ready#ready } page
    for page in "" token counter key number optimistic pessimistic machine prg plain api/state; do
        exec 5<>"/dev/tcp/127.0.0.1/${url##*:}"
        printf 'GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$page" >&5
        head -n 1 <&5 | grep -q ' 200 ' || { echo "checkout.sh: /$page did not answer" >&2; exit 1; }
        exec 5>&-
    done
}

if [ -n "$build" ]; then build; fi
at_exit clean_up
start_cluster
start_gateway
start_shop
echo "$ready"
if [ -n "$ready_file" ]; then echo "${ready#ready }" >"$ready_file"; fi
if [ -n "$once" ]; then
    try_pages
    exit 0
fi
watch_parent >/dev/null 2>&1 &
children+=($!)
wait "$shop"
