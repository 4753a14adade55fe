#!/usr/bin/env bash
# A site with a search, from README.md, docs/ and the pages and files that these link to, in build/site. A dead link is an error. TAP.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/tap.sh

# Each version of mkdocs and its theme reads another configuration.
if ! grep -qs '^VERSION_ID="12"' /etc/os-release; then
    echo '1..0 # SKIP the site is made with the tools of Debian 12'
    exit
fi
[ -d /usr/share/mkdocs/themes/material ] && command -v mkdocs >/dev/null && /usr/bin/python3 -c 'import pymdownx' 2>/dev/null ||
    scripts/deps.sh mkdocs mkdocs-material python3-pymdownx gnuplot-nox >&2

# What a theme's settings would take from elsewhere, the pages must not.
loads_nothing_else() { ! grep -rlE '<(script|img|link rel="stylesheet")[^>]* (src|href)="(https?:)?//' --include='*.html' build/site; }

# Mermaid draws the diagrams in the reader's browser: the version that the theme was made for, from npm. Without it, they stay text.
fetch_mermaid() {
    local version=8.13.3 archive=build/mermaid.tgz
    [ -f "$archive" ] || (cd build && npm pack --silent "mermaid@$version" >/dev/null && mv "mermaid-$version.tgz" mermaid.tgz) || return
    tar --extract --to-stdout --file="$archive" package/dist/mermaid.min.js >build/site-src/mermaid.min.js
}

# What the page "Try it" loads. Without PGlite, the page says that it could not be loaded.
stage_try() {
    local version archive=build/pglite.tgz
    version=$(sed -n 's|.*"@electric-sql/pglite": "\(.*\)".*|\1|p' tests/portable/drivers/package.json)
    make --silent portable && mkdir -p build/site-src/try/pglite && cp scripts/site/try/try.js build/site-src/try && cp build/idem--portable.sql build/site-src/try/idem.sql || return
    [ -f "$archive" ] || (cd build && npm pack --silent "@electric-sql/pglite@$version" >/dev/null && mv electric-sql-pglite-*.tgz pglite.tgz) || return 69
    tar --extract --file="$archive" --directory=build/site-src/try/pglite --strip-components=2 --wildcards 'package/dist/*.js' 'package/dist/*.wasm' 'package/dist/*.data' \
        --exclude='package/dist/*/*'
}

# In Chromium: two runs of the payment, an error, the state, and no request to elsewhere.
try_it() {
    local port server status=0
    npm_ci browser >/dev/null && cp tests/browser/try.js "$copy/try.mjs" || return
    port=$(free_port)
    python3 -m http.server --bind 127.0.0.1 --directory build/site "$port" >/dev/null 2>&1 &
    server=$!
    (cd "$copy" && timeout 180 node try.mjs "http://127.0.0.1:$port" "$OLDPWD/build") || status=$?
    kill "$server"
    return "$status"
}

tap 'the pages and the files that they link to' scripts/site.py stage build/site-src
if fetch_mermaid; then
    export IDEM_DIAGRAMS=mermaid
else
    : >build/site-src/mermaid.min.js
    skip 'the diagrams are drawn' 'npm has no mermaid here'
fi
stage_try >build/pglite.log 2>&1 || has_try=
tap 'mkdocs' mkdocs build --strict --quiet --clean
tap 'the search' scripts/site.py index build/site
tap 'each link leads to a page, and to an anchor of it' scripts/site.py check build/site
tap 'no page loads anything from elsewhere' loads_nothing_else
if [ -z "${has_try-yes}" ] || ! command -v "${CHROMIUM:-chromium}" >/dev/null; then
    skip 'try it' 'there is no PGlite or no Chromium here'
else
    tap 'try it' try_it
fi
finish
echo '# build/site/index.html; for the search: python3 -m http.server --directory build/site'
