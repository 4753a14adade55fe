#!/usr/bin/env bash
# Draws monitoring/dashboard.json with Grafana's own panels (npm's @grafana/ui) into build/dashboard.png: a private cluster with callers, Debian's
# postgres_exporter, Debian's Prometheus. TAP: each panel shows something.
#
#   dashboard.sh [--minutes N]   how long the callers call (10)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

minutes=10
if [ "${1:-}" = --minutes ]; then minutes=$2; fi
cluster=dashboard-$$
kept=$PWD/build/dashboard
groups=()

finish() {
    local group
    for group in "${groups[@]}"; do end_group TERM "$group"; done
    scripts/cluster.sh stop "$cluster"
}
at_exit finish

# keep NAME COMMAND ...: until the end of this script.
keep() {
    set -m
    "${@:2}" >"$kept/$1.log" 2>&1 </dev/null &
    groups+=($!)
    set +m
}

rm -rf "$kept"
mkdir -p "$kept"
{ scripts/deps.sh --examples prometheus prometheus-postgres-exporter && scripts/install.sh; } >"$kept/build.log" 2>&1 || {
    tail -n 40 "$kept/build.log" >&2
    exit 1
}
npm_ci_for_tap dashboard "$kept/npm.log"

scripts/cluster.sh start "$cluster" fsync=off shared_preload_libraries=idem idem.databases=shop idem.sweep_interval=10s idem.outbox_max_attempts=3
eval "$(scripts/cluster.sh env "$cluster")"
PATH="$("$PG_CONFIG" --bindir):$PATH"
createdb shop
export PGDATABASE=shop
install_idem shop
# The exporter's role is made as the page says.
{
    sed -n '/^CREATE ROLE exporter/,/^```$/{/^```/!p}' docs/monitoring.md
    echo "ALTER DATABASE shop SET search_path = public, idem; SELECT idem.idem_scope_set('transfers', on_lease_expiry => 'manual');"
} | psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null

exporter=127.0.0.1:$(free_port)
prometheus=127.0.0.1:$(free_port)
cat >"$kept/prometheus.yaml" <<EOF
global: {scrape_interval: 15s}
scrape_configs: [{job_name: idem, static_configs: [{targets: ['$exporter']}]}]
EOF
keep exporter env DATA_SOURCE_NAME="host=$PGHOST port=$PGPORT user=exporter dbname=shop sslmode=disable" prometheus-postgres-exporter \
    --web.listen-address="$exporter" --extend.query-path=monitoring/queries.yaml --disable-default-metrics --disable-settings-metrics
keep prometheus prometheus --config.file="$kept/prometheus.yaml" --storage.tsdb.path="$kept/prometheus" --web.listen-address="$prometheus"
keep callers tests/dashboard/callers.sh
sleep $((minutes * 60))
node "$copy/draw.js" "http://$prometheus" "$minutes" build/dashboard.png
