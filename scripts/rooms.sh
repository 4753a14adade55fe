#!/usr/bin/env bash
# The rooms of the extension and which room includes which, read from the sources. extension/src/ROOMS names the rooms, the lowest first:
# a room may include only rooms above its own line. Inside a room, too, no include leads upward: its files, of which a header and its source
# are one, have an order. SOURCES is a folder instead of extension/src.
#
#   rooms.sh arrows [SOURCES]   FROM TO NUMBER, one line for each pair of rooms
#   rooms.sh faults [SOURCES]   includes that lead upward, folders that are no room, files outside of any; nothing when all is well
#   rooms.sh draw [SOURCES]     the picture in docs/architecture.md, as Mermaid: an arrow that follows from others is left out
set -euo pipefail
cd "${2:-$(dirname "$0")/../extension/src}"

# "FILE HEADER" for each include of a room's header.
headers() { grep --recursive --with-filename --only-matching --perl-regexp '^#include "\K[a-z]+/[a-z_0-9]+(?=\.hpp")' --include='*.[ch]pp' . | sed 's|^\./||; s|:| |'; }

# "FILE ROOM".
includes() { headers | sed 's|/[^/]*$||'; }

arrows() { includes | awk '{split($1, path, "/"); if (path[1] != $2) count[path[1] " " $2]++} END {for (a in count) print a, count[a]}' | sort; }

faults() {
    includes | awk '
        NR == FNR {place[$1] = NR; next}
        {split($1, path, "/")}
        !($2 in place) {print $1 ": \"" $2 "\" is no room"; next}
        place[$2] > place[path[1]] {print $1 ": " path[1] " includes " $2 ", which lies above it"}' ROOMS -
    find . -name '*.[ch]pp' | awk '
        NR == FNR {is_room[$1] = 1; next}
        {n = split($0, path, "/")}
        n != 3 || !(path[2] in is_room) {print $0 ": lies in no room"}' ROOMS -
    cycles
}

# The includes inside a room that form a cycle: what is left when files that include none of the others, or that none includes, are taken away
# again and again.
cycles() {
    headers | sed 's|\.[ch]pp||' | awk '
        {split($1, from, "/"); split($2, to, "/")}
        from[1] == to[1] && $1 != $2 {arrow[$1 " " $2] = 1}
        END {
            do {
                split("", includes); split("", is_included); taken = 0
                for (a in arrow) {split(a, file, " "); includes[file[1]] = is_included[file[2]] = 1}
                for (a in arrow) {
                    split(a, file, " ")
                    if (!(file[2] in includes) || !(file[1] in is_included)) {delete arrow[a]; taken = 1}
                }
            } while (taken)
            for (a in arrow) {split(a, file, " "); print file[1] ": includes " file[2] ", from which includes lead back to it"}
        }' | sort
}

draw() {
    arrows | awk '
        NR == FNR {name[++rooms] = $1; next}
        {arrow[$1, $2] = reach[$1, $2] = 1}
        END {
            for (k = 1; k <= rooms; k++) for (i = 1; i <= rooms; i++) for (j = 1; j <= rooms; j++)
                if (reach[name[i], name[k]] && reach[name[k], name[j]]) reach[name[i], name[j]] = 1
            print "flowchart TD"
            for (i = rooms; i >= 1; i--) {
                print "    " name[i]
                for (j = i - 1; j >= 1; j--) {
                    follows = 0
                    for (k = 1; k <= rooms; k++)
                        if (reach[name[i], name[k]] && reach[name[k], name[j]]) follows = 1
                    if (arrow[name[i], name[j]] && !follows) print "    " name[i] " --> " name[j]
                }
            }
        }' ROOMS -
}

case ${1:-} in
    arrows | faults | draw) "$1" ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
