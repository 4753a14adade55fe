#!/usr/bin/env bash
# Builds the extension and installs it into the server, with sudo where that is needed. Arguments go to make.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

# Somebody with the rights may have installed this very build already. Servers may be loading it: to install it again would take it from
# them for a moment.
is_installed() {
    local extensions script
    extensions=$("$PG_CONFIG" --sharedir)/extension
    cmp --silent idem.so "$("$PG_CONFIG" --pkglibdir)/idem.so" || return
    cmp --silent extension/idem.control "$extensions/idem.control" || return
    for script in "build/idem--$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control).sql" sql/idem--*--*.sql; do
        if [ -e "$script" ]; then cmp --silent "$script" "$extensions/$(basename "$script")" || return; fi # there may be no upgrade
    done
}

make --silent --jobs="$(nproc)" all "$@"

if is_installed; then
    exit
fi
if [ -w "$("$PG_CONFIG" --pkglibdir)" ]; then
    make --silent install "$@"
elif ! as_root make --silent install PG_CONFIG="$PG_CONFIG" "$@"; then
    echo "install.sh: could not install; run this as root, then try again:" >&2
    echo "    make -C $PWD install PG_CONFIG=$PG_CONFIG" >&2
    exit 1
fi
