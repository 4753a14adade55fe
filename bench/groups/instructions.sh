# Instructions of the backend per call, counted by valgrind: unlike time, the same on a busy machine. The kernel's are not in it.
# shellcheck shell=bash

run_instructions() {
    if ! command -v valgrind >/dev/null; then
        progress '  skipped: there is no valgrind'
        return
    fi
    local calls=1000 case contender count
    if [ -n "$QUICK" ]; then calls=300; fi
    bench/instructions.sh "$calls" "$prefill" >"$scratch/instructions.tsv"
    while IFS=$'\t' read -r case contender count; do
        sample 'instructions per call' "$case" "$contender" 1 "$count"
    done <"$scratch/instructions.tsv"
}
