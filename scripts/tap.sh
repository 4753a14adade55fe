# Tests of scripts, as TAP: `tap` for each, `finish` at the end. Sourced, never run.
# shellcheck shell=bash

count=0
failed=

# attempt NAME COMMAND ...: one test. The end of what a failed one printed follows as a comment; all of it goes to the file `log`, if that
# is set. The command runs without `set -e`. Returns whether it passed.
attempt() {
    local name=$1 output=${log:-} status=0
    shift
    count=$((count + 1))
    if [ -z "$output" ]; then output=$(mktemp); fi
    echo "=== $name" >>"$output"
    if "$@" >>"$output" 2>&1; then
        echo "ok $count - $name"
    else
        failed=1 status=1
        echo "not ok $count - $name"
        tail -n 60 "$output" | sed 's/^/# /'
    fi
    if [ -z "${log:-}" ]; then rm "$output"; fi
    return "$status"
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
