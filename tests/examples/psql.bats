# scripts/psql.sh, which opens psql on a cluster of its own with the extension in it.

load helper

# The cluster outlives the commands that start it, and bats waits for whoever holds one of its files open.
setup() { cd "$BATS_TEST_DIRNAME/../.." && scripts/psql.sh -c 'SELECT 1' >/dev/null 3>&- 4>&-; }

@test "psql.sh passes its arguments on, and the names are found with and without the schema" {
    run scripts/psql.sh -XAtqc "SELECT idem.idem_claim('readme'), idem_claim('readme')"
    echo "$output"
    [ "${lines[-1]}" = "t|f" ]
    run scripts/psql.sh -XAtqc "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ^@ 'idem'"
    [ "${lines[-1]}" = 0 ]
}
