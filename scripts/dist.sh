#!/usr/bin/env bash
# Source archives of the last commit, for releases and for PGXN.
#
#   dist.sh           build/dist/idem-VERSION.tar.gz and .zip
#   dist.sh --check   the same, and what they hold builds alone: extension, client, command and portable edition, away from this tree.
#                     Where Debian has pgxnclient, it builds the .zip too. Nothing is installed into a server. TAP
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/tap.sh

version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control)
name=idem-$version
dist=$PWD/build/dist
# A commit gives the same bytes wherever they are made.
make_archives() {
    mkdir -p "$dist"
    if [ -n "$(git status --porcelain --untracked-files=no)" ]; then echo 'dist.sh: what is not committed is left out' >&2; fi
    TZ=UTC git archive --prefix="$name/" --output="$dist/$name.zip" HEAD
    git archive --prefix="$name/" --format=tar HEAD | gzip --no-name --best >"$dist/$name.tar.gz"
    (cd "$dist" && ls -l "$name.tar.gz" "$name.zip" && sha256sum "$name.tar.gz" "$name.zip")
}

unpack() {
    mkdir "$work/tar" "$work/zip" && tar --extract --gzip --file="$dist/$name.tar.gz" --directory="$work/tar" &&
        python3 -m zipfile -e "$dist/$name.zip" "$work/zip" && diff --recursive "$work/tar/$name" "$work/zip/$name"
}

build_extension() {
    make --silent -C "$work/tar/$name" --jobs="$(nproc)" with_llvm=no WERROR=1 &&
        make --silent -C "$work/tar/$name" install with_llvm=no DESTDIR="$work/server" &&
        find "$work/server" -name "idem--$version.sql" | grep . && find "$work/server" -name idem.so | grep .
}

build_client_and_command() {
    cmake -S "$work/tar/$name" -B "$work/build" -DIDEM_BUILD_TESTS=OFF && cmake --build "$work/build" --parallel "$(nproc)" &&
        cmake --install "$work/build" --prefix "$work/installed" && [ "$("$work/installed/bin/idem" --version)" != '' ]
}

build_portable() { make --silent -C "$work/tar/$name" portable && [ -s "$work/tar/$name/build/idem--portable.sql" ]; }

has_metadata() {
    python3 - "$work/zip/$name/META.json" "$version" <<'PY'
import json, pathlib, sys
meta = json.loads(pathlib.Path(sys.argv[1]).read_text())
missing = {"name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"} - meta.keys()
assert not missing, missing
assert meta["version"] == meta["provides"]["idem"]["version"] == sys.argv[2]
for name in ("file", "docfile"):
    assert (pathlib.Path(sys.argv[1]).parent / meta["provides"]["idem"][name]).exists(), name
PY
}

# It runs `make all` and `make install`, whose files go into a directory.
pgxn_install() {
    DESTDIR=$work/pgxn MAKEFLAGS="-j$(nproc) with_llvm=no" pgxn install --testing --make make --pg_config "$(command -v "$PG_CONFIG")" "$dist/$name.zip" &&
        find "$work/pgxn" -name idem.control | grep .
}

make_archives
if [ "${1:-}" = --check ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/pgxn"
    tap 'the archives hold the same' unpack
    tap 'META.json has the version and names files that are there' has_metadata
    tap 'the extension builds alone' build_extension
    tap 'the client and the command build alone' build_client_and_command
    tap 'the portable edition is made' build_portable
    if command -v pgxn >/dev/null; then
        tap 'pgxnclient builds and installs the .zip' pgxn_install
    else
        skip 'pgxnclient builds and installs the .zip' 'there is no pgxnclient; Debian has a package of that name'
    fi
    finish
fi
