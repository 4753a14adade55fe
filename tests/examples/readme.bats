# What examples/README.md tells to type.

load helper

# The cluster outlives the commands that start it, and bats waits for whoever holds one of its files open.
setup() { cd "$BATS_TEST_DIRNAME/../.." && scripts/psql.sh -c 'SELECT 1' >/dev/null 3>&- 4>&-; }

# The block of the page, on a cluster other than the one that somebody may be using.
typed() { sed -n '/^```sh$/,/^```$/p' examples/README.md | sed '/^```/d' | sed "s/\\bdev\\b/$PSQL_CLUSTER/"; }

@test "the commands of examples/README.md run an example" {
    [ "$(typed | wc -l)" -eq 3 ]
    # In one shell, as somebody types it, with nothing in the environment that names a server.
    run env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGPASSWORD bash -euc "$(typed)"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == "100 run, 99 replayed, 1 refused, "*" 100 applied, 90 seen before" ]]
}

@test "psql.sh passes its arguments on, and the names are found with and without the schema" {
    run scripts/psql.sh -XAtqc "SELECT idem.idem_claim('readme'), idem_claim('readme')"
    echo "$output"
    [ "${lines[-1]}" = "t|f" ]
    run scripts/psql.sh -XAtqc "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname ^@ 'idem'"
    [ "${lines[-1]}" = 0 ]
}
