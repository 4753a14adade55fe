#!/usr/bin/env bash
# Opens psql on the throw-away cluster "dev", with the extension in it; makes whatever of that is not there yet.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

scripts/deps.sh
scripts/install.sh
scripts/cluster.sh start dev
scripts/cluster.sh psql dev --quiet --command='SET client_min_messages = warning' \
    --command='CREATE EXTENSION IF NOT EXISTS idem'
exec scripts/cluster.sh psql dev
