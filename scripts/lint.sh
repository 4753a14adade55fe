#!/usr/bin/env bash
# Checks of the sources that need no build. TAP.
#
#   lint.sh           shellcheck, clang-format, codespell and lint-english.sh on the files that git knows
#   lint.sh --format  writes the C++ files as clang-format has them
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
source scripts/tap.sh

# Each version of these tools has rules and words of its own, and formats in another way.
if ! grep -qs '^VERSION_ID="12"' /etc/os-release; then
    echo '1..0 # SKIP the tree is held to the tools of Debian 12'
    exit
fi
command -v shellcheck >/dev/null && command -v clang-format >/dev/null && command -v codespell >/dev/null ||
    scripts/deps.sh shellcheck clang-format codespell >&2

# Scripts have a first line that says so. What they source, and bats, have variables and `set -e` from elsewhere.
readarray -t programs < <(git grep --files-with-matches --extended-regexp -e '^#!/(usr/)?bin/(env )?(ba)?sh')
readarray -t sourced < <(git ls-files '*.sh' '*.bash' '*.bats' | grep --invert-match --line-regexp --fixed-strings --file=<(printf '%s\n' "${programs[@]}"))
readarray -t cxx < <(git ls-files '*.cpp' '*.hpp')
readarray -t text < <(git ls-files '*.md' '*.sh' '*.sql' '*.cpp' '*.hpp' '*.py' '*.pl' '*.pm' Makefile debian)

if [ "${1:-}" = --format ]; then
    clang-format -i "${cxx[@]}"
    exit
fi

formatted() { printf '%s\0' "${cxx[@]}" | xargs --null --max-procs="$(nproc)" --max-args=50 clang-format --dry-run --Werror; }

tap "clang-format: ${#cxx[@]} files" formatted
tap "shellcheck: ${#programs[@]} programs" shellcheck --severity=warning --external-sources "${programs[@]}"
tap "shellcheck: ${#sourced[@]} files that are sourced" shellcheck --severity=warning --exclude=SC2034,SC2154,SC2164 "${sourced[@]}"
tap "codespell: ${#text[@]} files" codespell --config scripts/codespell.cfg "${text[@]}"
tap 'English' scripts/lint-english.sh
finish
