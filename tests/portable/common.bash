# What the tests of the portable edition begin with: the script is built, and the programs of the server's version are found.
build_portable() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    bindir=$("${PG_CONFIG:-pg_config}" --bindir)
    export root bindir PATH=$bindir:$PATH PGOPTIONS='-c client_min_messages=warning'
    make --silent --directory="$root" portable
}

# sql ROLE STATEMENT ...
sql() {
    local role=$1 statements=() statement
    shift
    for statement in "$@"; do statements+=(-c "$statement"); done
    psql -XAtq -U "$role" --set=ON_ERROR_STOP=1 "${statements[@]}"
}
