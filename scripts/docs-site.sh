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

tap 'the pages and the files that they link to' scripts/site.py stage build/site-src
if fetch_mermaid; then
    export IDEM_DIAGRAMS=mermaid
else
    : >build/site-src/mermaid.min.js
    skip 'the diagrams are drawn' 'npm has no mermaid here'
fi
tap 'mkdocs' mkdocs build --strict --quiet --clean
tap 'the search' scripts/site.py index build/site
tap 'each link leads to a page, and to an anchor of it' scripts/site.py check build/site
tap 'no page loads anything from elsewhere' loads_nothing_else
finish
echo '# build/site/index.html; for the search: python3 -m http.server --directory build/site'
