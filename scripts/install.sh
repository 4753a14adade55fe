#!/usr/bin/env bash
# Builds the extension and installs it into the server, with sudo where that is needed. Arguments go to make.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

make --silent --jobs="$(nproc)" all "$@"

if [ -w "$("$PG_CONFIG" --pkglibdir)" ]; then
    make --silent install "$@"
else
    as_root make --silent install PG_CONFIG="$PG_CONFIG" "$@" || {
        echo "install.sh: could not install; run \`sudo make install PG_CONFIG=$PG_CONFIG\`, then try again" >&2
        exit 1
    }
fi
