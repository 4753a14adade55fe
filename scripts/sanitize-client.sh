#!/usr/bin/env bash
# Runs the client's tests built with sanitizers, against a private cluster: threads (ThreadSanitizer), then memory
# (AddressSanitizer and UndefinedBehaviorSanitizer). Arguments, after the name of one of the two, go to ctest.
#
#   sanitize-client.sh [threads | memory] [argument ...]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

cluster=sanitize-$$

run_suite() {
    local name=$1 flags=$2 wrapper=$3
    shift 3
    local build=build/sanitize-$name
    echo "--- $name: $flags"
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS="$flags -fno-omit-frame-pointer" >/dev/null
    cmake --build "$build" --parallel "$(nproc)" --target idem-client-tests -- --quiet
    # shellcheck disable=SC2086  # a wrapper is words
    TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}" \
        ASAN_OPTIONS="detect_stack_use_after_return=1 ${ASAN_OPTIONS:-}" \
        LSAN_OPTIONS="suppressions=$PWD/tests/client/lsan.supp print_suppressions=0 ${LSAN_OPTIONS:-}" \
        UBSAN_OPTIONS="halt_on_error=1 print_stacktrace=1 ${UBSAN_OPTIONS:-}" \
        $wrapper ctest --test-dir "$build" --output-on-failure --label-regex client "$@"
}

selection=all
case ${1:-} in threads | memory) selection=$1; shift ;; esac

scripts/deps.sh
scripts/install.sh
finish() { scripts/cluster.sh stop "$cluster"; }
at_exit finish
scripts/cluster.sh start "$cluster" fsync=off max_prepared_transactions=10 statement_timeout=5min
eval "$(scripts/cluster.sh env "$cluster")"

status=0
# ThreadSanitizer's shadow memory does not fit every layout that address randomization makes.
wrapper=
if setarch -R true 2>/dev/null; then wrapper='setarch -R'; fi
if [ "$selection" != memory ]; then run_suite threads -fsanitize=thread "$wrapper" "$@" || status=1; fi
if [ "$selection" != threads ]; then
    run_suite memory '-fsanitize=address,undefined -fno-sanitize-recover=all' '' "$@" || status=1
fi
exit "$status"
