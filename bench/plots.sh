# Draws what docs/performance.md shows. Sourced by run.sh. Each plot is left out if there is nothing to draw.
# shellcheck shell=bash

plots=$scratch/plots

make_plots() {
    mkdir -p "$plots"
    if [ -n "$ONLY" ]; then return; fi
    if ! has_gnuplot; then
        progress '  there is no gnuplot: no plots'
        return
    fi
    tables targets >"$scratch/targets.tsv"
    if [ -s "$scratch/targets.tsv" ]; then gnuplot -c bench/targets.gnuplot "$scratch/targets.tsv" "$plots/targets.svg"; fi
    draw_panels claim bars 'claims/s' '' "$plots/claim.svg"
    draw_panels batch bars 'keys/s' '' "$plots/batch.svg"
    draw_panels growth lines '/s(,|$)|p99' 'live keys' "$plots/growth.svg"
    draw_panels rings lines '/s(,|$)|WAL' 'live keys' "$plots/rings.svg"
}

has_gnuplot() { command -v gnuplot >/dev/null || scripts/deps.sh gnuplot-nox >&2; }

# draw_panels GROUP bars|lines MEASURES AXIS FILE: a panel for each measure of the group that matches.
draw_panels() {
    awk -v group="$1" -v measures="$3" -v names="$scratch/panels.gnuplot" -f bench/panels.awk "$figures" >"$scratch/panels.tsv"
    if [ -s "$scratch/panels.tsv" ]; then gnuplot -c "bench/$2.gnuplot" "$scratch/panels.tsv" "$scratch/panels.gnuplot" "$5" "$4"; fi
}
