#!/usr/bin/env bash
# Whether the calls of bench/portable_calls.sh cost what bench/portable_counts.tsv says, within 5 %: instructions in the backend, as a multiple of those of
# a raw INSERT of a key that is there in the same run, whose count varies least. Prints TAP. For other costs on purpose, write the new multiples there.
set -euo pipefail
cd "$(dirname "$0")/.."
# A session of few calls says less: pages of an index split in some of them.
bench/instructions.sh --portable "${CALLS:-200}" 20000 "${1:-}" | awk -F '\t' '
    FNR == NR {if (!/^#/) expected[$1 ", " $2] = $3; next}
    $1 == "raw" && $2 == "duplicate" {raw = $3}
    ($1 ", " $2) in expected {
        call = $1 ", " $2
        multiple = $3 / raw
        printf "%sok %d - %s: %.2f, of %.2f\n", (multiple > 1.05 * expected[call] || multiple < 0.95 * expected[call] ? "not " : ""), ++count, call, multiple, expected[call]
    }
    END {for (call in expected) wanted++; print "1.." wanted}' bench/portable_counts.tsv -
