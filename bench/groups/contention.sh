# Ever more clients ask for units of ever fewer products. The strategies and what each transaction does are in `bench/strategies.hpp`,
# when to choose which in [choosing.md](choosing.md). Retries are per unit, without a pause. Commits are real, and the clients share the
# machine with the server. "1 ms of work" is a pause of the application: before the statement for `conditional_adjust`, between
# reading and writing for the others.
# shellcheck shell=bash

# A whole run measures the gist; `make bench ONLY=contention` everything.
run_contention() {
    local contention_rounds=${ROUNDS:-3} run_ms=150 client_counts=1,8,32 product_counts=1,100,100000
    if [ -n "$ONLY" ] && [ -z "$QUICK" ]; then contention_rounds=${ROUNDS:-5} run_ms=400 client_counts=1,2,4,8,16,32; fi
    if [ -n "$QUICK" ]; then contention_rounds=${ROUNDS:-1}; fi
    if [ -n "${RUN_SECONDS:-}" ]; then run_ms=$(awk -v s="$RUN_SECONDS" 'BEGIN {print int(s * 1000)}'); fi
    place '32 clients'
    sql -v rows="${product_counts##*,}" -f "$contenders/contention/schema.sql" >/dev/null
    "$drivers/idem-bench-contention" "$contention_rounds" "$run_ms" "$client_counts" "$product_counts" >"$scratch/contention.runs"
    awk -f bench/medians.awk "$scratch/contention.runs" >"$scratch/contention.tsv"
    if [ -n "$ONLY" ] && [ -z "$QUICK" ]; then
        publish_contention "Medians of $contention_rounds rounds with runs of $run_ms ms each, $(date --utc +%F)."
    fi
}

# publish_contention NOTE: the medians, and the figures between the two marks in docs/choosing.md.
publish_contention() {
    cp "$scratch/contention.tsv" docs/plots/contention.tsv
    {
        echo "$1"
        tables_contention
        echo
    } | replace_figures docs/choosing.md
}

# For the report: these are no contenders with a target.
tables_contention() { awk -f bench/contention.awk "$scratch/contention.tsv"; }
