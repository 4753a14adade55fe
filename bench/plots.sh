#!/usr/bin/env bash
# plots.sh [DIRECTORY]: draws what the pages of docs show from the figures beside them, docs/performance.tsv and docs/plots/*.tsv, into
# build/plots or DIRECTORY. A plot is left out if there is nothing to draw.
set -euo pipefail
to=$(realpath --canonicalize-missing "${1:-build/plots}")
cd "$(dirname "$0")/.."

# draw_panels FIGURES GROUP bars|lines MEASURES AXIS NAME: a panel for each measure of the group that matches.
draw_panels() {
    awk -v group="$2" -v measures="$4" -v names="$scratch/panels.gnuplot" -f bench/panels.awk "$1" >"$scratch/panels.tsv"
    if [ -s "$scratch/panels.tsv" ]; then gnuplot -c "bench/$3.gnuplot" "$scratch/panels.tsv" "$scratch/panels.gnuplot" "$to/$6.svg" "$5"; fi
}

command -v gnuplot >/dev/null || scripts/deps.sh gnuplot-nox >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$to"
awk -f bench/targets.awk bench/targets.tsv docs/performance.tsv >"$scratch/targets.plot"
if [ -s "$scratch/targets.plot" ]; then gnuplot -c bench/targets.gnuplot "$scratch/targets.plot" "$to/targets.svg"; fi
draw_panels docs/performance.tsv claim bars 'claims/s' '' claim
draw_panels docs/performance.tsv batch bars 'keys/s' '' batch
draw_panels docs/performance.tsv growth lines '/s(,|$)|p99' 'live keys' growth
draw_panels docs/performance.tsv rings lines '/s(,|$)|WAL' 'live keys' rings
awk -f bench/samples.awk -f bench/figures.awk docs/plots/rings.tsv >"$scratch/rings.tsv"
draw_panels "$scratch/rings.tsv" rings lines '/s(,|$)|WAL' 'live keys' rings-growth
gnuplot -c bench/contention.gnuplot docs/plots/contention.tsv "$to"
