# Tests of scripts, as TAP: `tap` for each, `finish` at the end. Sourced, never run.
# shellcheck shell=bash

count=0
failed=

# attempt NAME COMMAND ...: one test. The end of what a failed one printed follows as a comment; all of it goes to the file `log`, if that
# is set. The command runs without `set -e`. Returns whether it passed.
attempt() {
    # Functions that are tested see the variables of this one.
    local tap_output=${log:-} tap_status=0
    if [ -z "$tap_output" ]; then tap_output=$(mktemp); fi
    count=$((count + 1))
    echo "=== $1" >>"$tap_output"
    if "${@:2}" >>"$tap_output" 2>&1; then
        echo "ok $count - $1"
    else
        failed=1 tap_status=1
        echo "not ok $count - $1"
        tail -n 60 "$tap_output" | sed 's/^/# /'
    fi
    if [ -z "${log:-}" ]; then rm "$tap_output"; fi
    return "$tap_status"
}

# tap NAME COMMAND ...: the same for tests that others do not rest on.
tap() { attempt "$@" || true; }

# skip NAME WHY
skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# The last command of a script.
finish() {
    echo "1..$count"
    [ -z "$failed" ]
}
