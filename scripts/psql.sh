#!/usr/bin/env bash
# Opens psql on the throw-away cluster "dev" (or PSQL_CLUSTER), with the extension in its schema "idem"; makes whatever of that is not there
# yet. Arguments go to psql; paths are relative to the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

cluster=${PSQL_CLUSTER:-dev}
scripts/deps.sh
scripts/install.sh
scripts/cluster.sh start "$cluster"
create_idem "$cluster"
exec scripts/cluster.sh psql "$cluster" "$@"
