# Instructions of the backend per call, counted by valgrind: unlike time, the same on a busy machine. The kernel's are not in it. Of all
# flows: `make bench ONLY=instructions`.
# shellcheck shell=bash

run_instructions() {
    if ! command -v valgrind >/dev/null; then
        progress '  skipped: there is no valgrind'
        return
    fi
    local calls=600 case contender count
    local what='^((fresh|duplicate) claim, (idem_claim|raw_on_conflict)|.* claim, counted, .*|request, (idem_execute|hand_written))$'
    if [ -n "$ONLY" ]; then calls=1000 what=; fi
    if [ -n "$QUICK" ]; then calls=300; fi
    bench/instructions.sh "$calls" "$prefill" "$what" >"$scratch/instructions.tsv"
    while IFS=$'\t' read -r case contender count; do
        sample 'instructions per call' "$case" "$contender" 1 "$count"
    done <"$scratch/instructions.tsv"
}
