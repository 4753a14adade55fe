# The walls inside the extension: two kinds of C++, rooms that use only the rooms below them, and files of a room likewise. What the portable edition must not do.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "the server's headers are included by pg.hpp alone" {
    cd extension/src
    run grep --files-with-matches --extended-regexp '#include (<(postgres|fmgr)\.h>|"[^"]+\.h")' --recursive --include='*.[ch]pp' .
    [ "$output" = ./server/pg.hpp ] || { echo "$output"; false; }
}

@test "each file lies in a room, and no include leads upward: neither to a room above its own, nor in a circle inside the room" {
    run scripts/rooms.sh faults
    [ "$status" -eq 0 ] && [ -z "$output" ] || { echo "$output"; false; }
}

# sources FILE:HEADER...: files of the rooms "low" and "high", each with one include.
sources() {
    local entry
    mkdir -p "$BATS_TEST_TMPDIR/low" "$BATS_TEST_TMPDIR/high"
    printf '%s\n' server low high >"$BATS_TEST_TMPDIR/ROOMS"
    for entry; do printf '#include "%s"\n' "${entry#*:}" >"$BATS_TEST_TMPDIR/${entry%%:*}"; done
}

@test "an include of a higher room, and a circle of a room's files, are found" {
    sources low/a.hpp:server/pg.hpp low/b.hpp:low/a.hpp low/b.cpp:low/b.hpp high/c.cpp:low/b.hpp
    [ -z "$(scripts/rooms.sh faults "$BATS_TEST_TMPDIR")" ]
    sources low/d.cpp:high/c.hpp low/a.cpp:low/e.hpp low/e.hpp:low/b.hpp
    run scripts/rooms.sh faults "$BATS_TEST_TMPDIR"
    [ "$output" = 'low/d.cpp: low includes high, which lies above it
low/a: includes low/e, from which includes lead back to it
low/b: includes low/a, from which includes lead back to it
low/e: includes low/b, from which includes lead back to it' ] || { echo "$output"; false; }
}

@test "the picture of the rooms in docs/architecture.md is the one that the includes give" {
    run diff <(scripts/rooms.sh draw) <(sed -n '/^```mermaid$/,/^```$/p' docs/architecture.md | sed '1d;$d' | sed -n '/^flowchart TD$/,$p')
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}

# A cancel or a lock_timeout that comes as a lock of the session is granted leaves the lock to the session.
@test "no function of the portable edition waits for an advisory lock of the session" {
    run grep --line-number --recursive --extended-regexp '\bpg_advisory_lock(_shared)?\(' sql/portable
    [ "$status" -eq 1 ] || { echo "$output"; false; }
}

@test "the Makefile lists each file of sql/, and no other" {
    run diff <(make --dry-run portable | grep --only-matching 'sql/[a-z_]*/[a-z_]*\.sql' | sort --unique) \
        <(printf '%s\n' sql/*/*.sql sql/portable/*/*.sql | grep --invert-match '^sql/portable/[a-z]*\.sql$' | sed 's|^sql/portable/|sql/|' | sort --unique)
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}

# An error longjmps past destructors. tests/tree/owning_types lists the files in which it cannot.
@test "backend files name no type with a destructor" {
    run diff <(sed -n -E '/^extension/s/ \| .*//p' tests/tree/owning_types) \
        <(grep --recursive --files-with-matches --include='*.[ch]pp' --exclude-dir=core \
            --extended-regexp 'std::(string|vector|map|set|unordered_map|unordered_set|deque|list|function|unique_ptr|shared_ptr)\b' extension/src | LC_ALL=C sort)
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}
