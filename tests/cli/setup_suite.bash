# One database for all files, and one without idem, on the cluster that libpq's environment names (scripts/cluster.sh start NAME; eval "$(… env NAME)").
# Its server is restarted by tests.

setup_suite() {
    bindir=$("${PG_CONFIG:-pg_config}" --bindir)
    export PATH=$bindir:$PATH
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    export root
    export IDEM=${IDEM:-$root/build/cmake/bin/idem}
    [ -x "$IDEM" ] || {
        echo "there is no $IDEM" >&2
        return 1
    }
    # A test that hangs is to fail.
    export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-120}
    export PGOPTIONS='-c client_min_messages=warning'
    psql -Xqc 'DROP DATABASE IF EXISTS idem_cli' -c 'CREATE DATABASE idem_cli' \
        -c 'DROP DATABASE IF EXISTS idem_cli_bare' -c 'CREATE DATABASE idem_cli_bare TEMPLATE template0' || return
    export PGDATABASE=idem_cli
    # With nothing of it in the search_path. The portable edition may be there from the template.
    [ "$(psql -XAtqc "SELECT to_regproc('idem.idem_version') IS NULL")" = f ] ||
        psql -Xqc 'CREATE SCHEMA idem' -c 'CREATE EXTENSION idem SCHEMA idem'
}

teardown_suite() {
    PGDATABASE=postgres psql -Xqc 'DROP DATABASE IF EXISTS idem_cli WITH (FORCE)' -c 'DROP DATABASE IF EXISTS idem_cli_bare WITH (FORCE)'
}
