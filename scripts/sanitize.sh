#!/usr/bin/env bash
# Runs tests built with sanitizers, against private clusters: the client's, with ThreadSanitizer (threads) and with
# AddressSanitizer and UndefinedBehaviorSanitizer (memory); and, with the latter two, the extension's. Arguments after a
# selection go to that part: to ctest, or the names of pgTAP files and isolation specs.
#
#   sanitize.sh [threads | memory | extension] [argument ...]
set -euo pipefail
cd "$(dirname "$0")/.."

trap 'exit 130' INT # a part that is interrupted exits, and the next would begin
status=0
case ${1:-} in
    extension) shift; scripts/sanitize-extension.sh "$@" || status=1 ;;
    threads | memory) scripts/sanitize-client.sh "$@" || status=1 ;;
    *)
        scripts/sanitize-extension.sh || status=1
        scripts/sanitize-client.sh "$@" || status=1
        ;;
esac
exit "$status"
