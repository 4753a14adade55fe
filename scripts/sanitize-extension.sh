#!/usr/bin/env bash
# Runs the extension's pgTAP and isolation tests with the extension built by AddressSanitizer and UndefinedBehaviorSanitizer,
# in a server that has the former's runtime preloaded. Any report fails the run; the reports are kept in build/sanitize-extension.
#
# The server itself is not instrumented: of the memory that it hands out, only what lies outside of its allocator's blocks
# is watched. What happens within those only valgrind can see.
#
#   sanitize-extension.sh [pgTAP file | isolation spec ...]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/instrumented.sh

# Without -fwrapv, which the server's flags have: an overflow is a mistake here. Without _FORTIFY_SOURCE, which hides memcpy
# from AddressSanitizer.
sanitizers='-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all'

# What is loaded before the server's libraries.
#
# AddressSanitizer begins with the first malloc, and calls gettext. When that malloc is gettext's own, as it is in libgpg-error's
# constructor, which a Debian server has, this never returns; so there is to be one before.
#
# UndefinedBehaviorSanitizer reads its settings from the environment when it first has something to say, when the server has
# long overwritten that with its title; so they are compiled in. It writes to the server's log.
build_preload() {
    cat >"$work/preload.c" <<C
#include <stdlib.h>
__attribute__((constructor)) static void first(void) { void *volatile memory = malloc(1); free(memory); }
const char *__ubsan_default_options(void) { return "print_stacktrace=1:abort_on_error=1"; }
C
    gcc -shared -fPIC -Wl,-z,initfirst -o "$root/preload.so" "$work/preload.c"
    preload=$(gcc -print-file-name=libasan.so):$root/preload.so
}

scripts/deps.sh
prepare sanitize-extension
select_tests "$@"
echo "--- extension: $sanitizers"
build_extension CPPFLAGS=-D_GNU_SOURCE PG_LDFLAGS="$sanitizers" \
    CXXFLAGS="-O1 -g -fno-omit-frame-pointer -fno-strict-aliasing $sanitizers"

build_preload

# Leaks: the server frees by contexts, and much of what it has it never frees. tests/recovery/024_leaks.pl looks for them.
# Abort: a backend that exits by itself takes nothing down, and might be taken for one that a test ended. The frames of
# instrumented functions are larger: how deep the server lets its stack become leaves room enough.
asan=detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1
start_server "env LD_PRELOAD=$preload ASAN_OPTIONS=$asan:log_path=$reports/asan" statement_timeout=10min

status=0
run_pgtap "${files[@]}" || status=1
run_isolation "${specs[@]}" || status=1
stop_server || status=1
if compgen -G "$reports/*" >/dev/null; then
    head -n 60 "$reports"/*
    echo "sanitize-extension.sh: $(find "$reports" -type f | wc -l) reports, in $kept/reports"
    status=1
fi
if [ "$status" -eq 0 ]; then echo 'sanitize-extension.sh: no report'; fi
exit "$status"
