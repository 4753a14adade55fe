#!/usr/bin/env bash
# The benchmark: idem beside what people use instead, the contenders alternating in one run on one private cluster.
#
#   make bench                       everything, about a quarter of an hour; writes docs/performance.md, .tsv and docs/plots/claim.svg
#   make bench QUICK=1               in less than five minutes: fewer and shorter runs, and not those that need many keys or clients; writes them as well
#   make bench ONLY=claim,batch      some groups; prints only
#   make bench ONLY=contention       about eight minutes; the group's figures in docs are replaced, QUICK=1 leaves them
#   make bench GROWTH=50             the group growth goes on to that many million keys: minutes more, and some 35 GB of disk
#   make bench ONLY=rings RINGS=1,50 the group rings with so many million keys, at most 100; replaces these sizes in docs/rings.md. 50 take half an hour
#                                    and some 50 GB of disk
#   ROUNDS=9 and RUN_SECONDS=3       replace the number of rounds and the length of a run
#   SWEEP=5000000                    so many expired keys for the group sweep
#
# A group is a file in bench/groups, a contender a section of a file in bench/contenders, a target a line of bench/targets.tsv,
# and why one is missed a line of bench/reasons.tsv.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source bench/lib.sh
source bench/tables.sh
source bench/report.sh

QUICK=${QUICK:-} ONLY=${ONLY:-}
all_groups=(claim replay request portable http storm once batch pipeline growth rings try rows transition tokens rates hits ids steps locks handover outbox webhooks sweep statistics cost memory contention instructions)
# What needs many keys or many clients, and so its time.
slow=" portable growth rings handover sweep memory contention instructions "
chosen=()
for group in "${all_groups[@]}"; do
    if [ -z "$QUICK" ] || [[ $slow != *" $group "* ]]; then chosen+=("$group"); fi
done
IFS=, read -r -a groups <<<"${ONLY:-$(IFS=,; echo "${chosen[*]}")}"
for group in "${groups[@]}"; do
    [ -f "bench/groups/$group.sh" ] || die "there is no group \"$group\"; there are ${all_groups[*]}"
    # shellcheck source=/dev/null
    source "bench/groups/$group.sh"
done

rounds=5 run_seconds=0.5 prefill=20000
if [ -n "$QUICK" ]; then rounds=2 run_seconds=0.3 loads_without_flush=(); fi
rounds=${ROUNDS:-$rounds} run_seconds=${RUN_SECONDS:-$run_seconds}
kind="${QUICK:+ QUICK=$QUICK}${ROUNDS:+ ROUNDS=$ROUNDS}${RUN_SECONDS:+ RUN_SECONDS=$RUN_SECONDS}${SWEEP:+ SWEEP=$SWEEP}${GROWTH:+ GROWTH=$GROWTH}${RINGS:+ RINGS=$RINGS}"
command_line="make bench${ONLY:+ ONLY=$ONLY}$kind"

commit=$(commit)
scripts/deps.sh redis-tools libhiredis-dev
scripts/install.sh
build_drivers
start_cluster shared_preload_libraries=idem
group_seconds=()
for group in "${groups[@]}"; do
    progress "$group"
    started=$SECONDS
    "run_$group"
    group_seconds+=($((SECONDS - started)))
done
progress "seconds: $(seconds_per_group)"

make_figures
report >"$scratch/report.md"
cat "$scratch/report.md"
if [ -z "$ONLY" ]; then publish; fi
