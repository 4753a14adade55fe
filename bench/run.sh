#!/usr/bin/env bash
# The benchmark: idem beside what people use instead, the contenders alternating in one run on one private cluster.
#
#   make bench                       everything, about half an hour; writes docs/performance.md
#   make bench QUICK=1               the gist of everything, about twelve; writes it as well
#   make bench ONLY=claim,batch      some groups; prints only
#   make bench ONLY=contention       about eight minutes; the group's plots and figures in docs are made anew, QUICK=1 leaves them
#   ROUNDS=9 and RUN_SECONDS=3       replace the number of rounds and the length of a run
#
# A group is a file in bench/groups, a contender a file in bench/contenders, a target a line of bench/targets.tsv.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source bench/lib.sh
source bench/tables.sh
source bench/report.sh

QUICK=${QUICK:-} ONLY=${ONLY:-}
# Contention makes plots, which take their time.
if [ -n "$QUICK" ]; then contention=(); else contention=(contention); fi
all_groups=(claim replay request once batch try rows transition tokens ids locks sweep statistics "${contention[@]}" cost instructions)
IFS=, read -r -a groups <<<"${ONLY:-$(IFS=,; echo "${all_groups[*]}")}"
for group in "${groups[@]}"; do
    [ -f "bench/groups/$group.sh" ] || die "there is no group \"$group\"; there are ${all_groups[*]}"
    source "bench/groups/$group.sh"
done

if [ -n "$QUICK" ]; then
    rounds=3 run_seconds=1 prefill=20000
    loads_with_flush=("${loads_without_flush[@]}")
else
    rounds=5 run_seconds=1 prefill=50000
fi
rounds=${ROUNDS:-$rounds} run_seconds=${RUN_SECONDS:-$run_seconds}
command_line="make bench${QUICK:+ QUICK=$QUICK}${ONLY:+ ONLY=$ONLY}${ROUNDS:+ ROUNDS=$ROUNDS}${RUN_SECONDS:+ RUN_SECONDS=$RUN_SECONDS}"

scripts/deps.sh
scripts/install.sh
build_drivers
start_cluster shared_preload_libraries=idem
for group in "${groups[@]}"; do
    progress "$group"
    "run_$group"
done

report >"$scratch/report.md"
cat "$scratch/report.md"
if [ -z "$ONLY" ]; then
    mkdir -p docs
    cp "$scratch/report.md" docs/performance.md
fi
