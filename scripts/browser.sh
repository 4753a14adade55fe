#!/usr/bin/env bash
# The browser's tests of examples/checkout: Debian's Chromium, driven by playwright-core, against a shop on a private cluster that
# is gone afterwards. Prints TAP.
#
#   browser.sh [ARGUMENT ...]    for node, such as --test-name-pattern=reload
#
# SHOP_URL names a shop that was started with --test, if there is one, PARTNER_SECRET its partner's secret; CHROMIUM the browser.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

kept=$PWD/build/browser
child='' shop=''

# The browser goes when node does, however that ends. The shop ends what it has started.
finish() {
    end_group KILL "$child"
    end_group TERM "$shop"
    rm -rf "$kept/tmp"
}
at_exit finish

mkdir -p "$kept/tmp"
scripts/deps.sh --examples >"$kept/build.log" 2>&1 || {
    tail -n 40 "$kept/build.log" >&2
    exit 1
}
npm_ci_for_tap browser "$kept/npm.log"

set -m
if [ -z "${SHOP_URL:-}" ]; then
    rm -f "$kept/url"
    scripts/checkout.sh --test --cluster "browser-$$" --ready-file "$kept/url" </dev/null >"$kept/shop.log" 2>&1 &
    shop=$!
    until [ -s "$kept/url" ]; do
        kill -0 "$shop" 2>/dev/null || {
            tail -n 40 "$kept/shop.log" >&2
            exit 1
        }
        sleep 0.2
    done
    SHOP_URL=$(cat "$kept/url")
    # An operator gives a partner a secret.
    PARTNER_SECRET=$(od -An -N 32 -t x1 /dev/urandom | tr -d ' \n')
    export PARTNER_SECRET
    (
        eval "$(scripts/cluster.sh env "browser-$$")"
        "$("$PG_CONFIG" --bindir)/psql" -Xq -v ON_ERROR_STOP=1 -o /dev/null <<<"SELECT idem_api_key_set('partner', '$PARTNER_SECRET')"
    )
fi
export SHOP_URL
# One file after the other, as each resets the shop. The browser keeps its profiles in the directory for temporary files.
run_tests() {
    local file failed=0
    for file in "$copy"/*.test.js; do
        TMPDIR=$kept/tmp node --test-reporter=tap "$@" "$file" || failed=1
    done
    return "$failed"
}
run_tests "$@" </dev/null &
child=$!
set +m
status=0
wait "$child" || status=$?
child=
exit "$status"
