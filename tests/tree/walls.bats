# The walls inside the extension: two kinds of C++, and rooms that use only the rooms below them. What the portable edition must not do.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "the server's headers are included by pg.hpp alone" {
    cd extension/src
    run grep --files-with-matches --extended-regexp '#include (<(postgres|fmgr)\.h>|"[^"]+\.h")' --recursive --include='*.[ch]pp' .
    [ "$output" = ./server/pg.hpp ] || { echo "$output"; false; }
}

@test "each file lies in a room and includes only rooms that are not above its own" {
    run scripts/rooms.sh faults
    [ "$status" -eq 0 ] && [ -z "$output" ] || { echo "$output"; false; }
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
