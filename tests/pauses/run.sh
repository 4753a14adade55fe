#!/usr/bin/env bash
# Isolation specs that hold a session at a point of the code (server/pause.hpp), which only a library that is built for them has. Prints TAP.
# On the cluster of the environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/lib.sh

work=$(mktemp -d /tmp/idem-pauses-XXXXXX)
at_exit 'rm -rf "$work"'
chmod 755 "$work"
cp -a Makefile extension sql scripts "$work"
# Only the files with a pause are compiled again.
grep --recursive --files-with-matches --null 'pause.hpp"' "$work/extension/src" --include='*.cpp' | xargs --null touch
make --silent --directory="$work" --jobs="$(nproc)" with_llvm=no PAUSES=1 idem.so
chmod a+r "$work/idem.so"

bindir=$("$PG_CONFIG" --bindir)
mkdir -p build/pauses
"$bindir/createdb" pauses
"$bindir/psql" --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=pauses --set=library="$work/idem.so" <<'SQL'
CREATE EXTENSION idem;
UPDATE pg_proc SET probin = :'library' WHERE probin = '$libdir/idem';
SQL
specs=(tests/pauses/specs/*.spec)
specs=("${specs[@]##*/}")
"$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")/test/isolation/pg_isolation_regress" --bindir="$bindir" --use-existing --dbname=pauses \
    --inputdir=tests/pauses --outputdir=build/pauses "${specs[@]%.spec}"
