#!/usr/bin/env bash
# Builds a PostgreSQL for scripts/valgrind.sh, with assertions and with what tells valgrind of memory contexts, from Debian's
# source package (or from SOURCE, where that is unpacked) into PREFIX/pgsql. --asserts: for scripts/asserts.sh, without valgrind's part.
# Exits with 69 if there is no source package.
#
#   valgrind-server.sh [--asserts] PREFIX [SOURCE]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

packages=(bison flex zlib1g-dev libicu-dev libxml2-dev libssl-dev pkg-config) options=()
build=build/valgrind-server
if [ "${1:-}" = --asserts ]; then shift; build=build/assert-server; else packages+=(valgrind) options=(CPPFLAGS=-DUSE_VALGRIND); fi
[ $# -ge 1 ] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
major=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
# Debian's makefiles add a directory of its own to every path that has neither "pgsql" nor "postgres" in it.
prefix=$(realpath --canonicalize-missing "$1")/pgsql
source=${2:-}
mkdir -p "$build"
if [ -z "$source" ]; then
    scripts/deps.sh dpkg-dev
    (cd "$build" && apt-get source --quiet --quiet "postgresql-$major") || {
        echo "valgrind-server.sh: no source package; it takes a deb-src line in apt's sources, or SOURCE" >&2
        exit 69
    }
    source=$(find "$build" -maxdepth 1 -type d -name "postgresql-$major-*" | sort -V | tail -n 1)
fi
source=$(realpath "$source")
scripts/deps.sh "${packages[@]}"
cd "$build"
"$source/configure" --quiet --prefix="$prefix" --enable-cassert --enable-debug --with-icu --with-libxml --with-openssl --without-readline \
    CFLAGS='-O1 -fno-omit-frame-pointer' "${options[@]}"
make --silent --jobs="$(nproc)"
make --silent install
for part in src/test/isolation contrib; do make --silent --directory="$part" install; done
install --mode=644 "$source/src/tools/valgrind.supp" "$prefix/share/valgrind.supp"
echo "PG_CONFIG=$prefix/bin/pg_config"
