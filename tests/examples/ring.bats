# Ids through a ring (examples/ring.sql), fewer of them.

load helper

@test "a stream of ids through a ring: each is new once, and windows turn" {
    [ -z "${IDEM_PORTABLE:-}" ] || skip "the portable edition has no rings"
    cd "$BATS_TEST_DIRNAME/../.."
    make_database ring /dev/null
    output=$(PGHOST=$IDEM_SOCKETS PGUSER=postgres PGOPTIONS='-c search_path=public,idem' psql -XAt -v batches=60 -v retention='30 s' -f examples/ring.sql)
    grep -x '597000|540000|540000' <<<"$output"
    grep -E '^[0-9]+\|open\|' <<<"$output"
    grep -E '^[0-9]+\|(sealed|expired)\|' <<<"$output"
}
