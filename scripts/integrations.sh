#!/usr/bin/env bash
# Builds the packages for frameworks, each below build/integrations: an npm package, a wheel, a jar, a Go module. Prints the path of each.
#
#   integrations.sh [node|python|java|go ...]    all of them, or these
set -euo pipefail
cd "$(dirname "$0")/.."

build=$PWD/build/integrations

node() {
    rm -f "$build"/node/*.tgz
    mkdir -p "$build/node"
    (cd integrations/node && npm pack --silent --pack-destination "$build/node" >&2)
    echo "$build"/node/*.tgz
}

# In a copy, because setuptools writes beside the sources.
python() {
    rm -rf "$build"/python/source "$build"/python/*.whl
    mkdir -p "$build/python"
    cp -R integrations/python "$build/python/source"
    make --silent portable
    mkdir "$build/python/source/src/idem_postgres/sql"
    cp build/idem--portable.sql build/idem--portable-uninstall.sql "$build/python/source/src/idem_postgres/sql"
    (cd "$build/python" && /usr/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --no-index ./source >&2)
    echo "$build"/python/*.whl
}

java() { integrations/java/build.sh; }

go() {
    rm -rf "$build/go"
    mkdir -p "$build"
    cp -R integrations/go "$build/go"
    make --silent portable >&2
    cp build/idem--portable.sql build/idem--portable-uninstall.sql "$build/go/portable"
    echo "$build/go"
}

[ $# -gt 0 ] || set -- node python java go
for package; do
    case $package in
        node | python | java | go) ;;
        *)
            sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2
            exit 2
            ;;
    esac
done
scripts/deps.sh --examples python3-pip python3-venv python3-setuptools python3-wheel libservlet-api-java libjakarta-servlet-api-java libspring-web-servlet-java >&2
for package; do "$package"; done
