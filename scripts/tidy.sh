#!/usr/bin/env bash
# clang-tidy on the extension, the client and the command, with the checks of .clang-tidy. TAP. What was found is in build/tidy/log.
#
#   tidy.sh            all files: minutes
#   tidy.sh PATTERN    those whose path matches: `tidy.sh keys/claim`
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/tap.sh

# Each version of clang-tidy has checks and false alarms of its own.
if ! grep -qs '^VERSION_ID="12"' /etc/os-release; then
    echo '1..0 # SKIP the sources are held to the clang-tidy of Debian 12'
    exit
fi
scripts/deps.sh clang-tidy >&2
cmake -S . -B build/tidy -DIDEM_BUILD_TESTS=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null

pattern=${1:-}
log=$PWD/build/tidy/log
: >"$log"

# The output of one run stays together. It counts the warnings of foreign headers, even with --quiet.
run_clang_tidy() {
    local found
    found=$(nice -n 5 clang-tidy --quiet "$@" 2>&1) || { printf '%s\n' "$found" && return 1; }
}
export -f run_clang_tidy

# A finding in a header comes from each file that includes it, and is shown once. The first lines of all findings follow at the end.
show_findings() {
    sed "s|^$PWD/||" | awk '
        BEGIN {is_new = 1}
        /^[0-9]+ warnings? / {next}
        /: (warning|error): / {is_new = !seen[$0]++; if (is_new) found[++count] = $0}
        is_new {print}
        END {for (i = 1; i <= count; i++) print found[i]}'
}

# tidy NAME PATHS OPTION ...: one test. The options follow the file's name.
tidy() {
    local name=$1 paths=$2 files
    shift 2
    readarray -t files < <(git ls-files -- "$paths" | grep --extended-regexp -e "$pattern")
    if [ ${#files[@]} -gt 0 ]; then tap "$name: ${#files[@]} files" run_on_files "$@"; fi
}

run_on_files() {
    printf '%s\0' "${files[@]}" | xargs --null --max-procs="$(nproc)" -I '{}' bash -c 'run_clang_tidy "$@"' _ '{}' "$@" | show_findings
}

# The flags of the Makefile. As bitcode, these files are compiled by Clang as well.
tidy 'the extension' 'extension/src/*.cpp' -- -std=c++20 -Wall -Wextra -Wshadow -D_GNU_SOURCE -DIDEM_VERSION='""' -DIDEM_SOURCE_ID='""' \
    -Iextension/src -isystem "$("$PG_CONFIG" --includedir-server)"
tidy 'the client' 'client/src/*.cpp' -p build/tidy
# The paths into the templates of CLI11 would take most of a minute.
tidy 'the command' 'client/cli/*.cpp' -p build/tidy \
    --extra-arg={-Xclang,-analyzer-config,-Xclang,c++-template-inlining=false,-Xclang,-analyzer-config,-Xclang,c++-container-inlining=false}
finish
