# scripts/portable.py stops at what it cannot translate.

setup() {
    portable=$(realpath "$BATS_TEST_DIRNAME/../../scripts/portable.py")
    mkdir -p "$BATS_TEST_TMPDIR/sql/room"
    cd "$BATS_TEST_TMPDIR"
}

build() { run "$portable" --tle 1.0.0 sql/room/room.sql; }

@test "the schema that the C edition looks up is the one of the installation" {
    home="(SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem')"
    echo "CREATE FUNCTION idem_home() RETURNS text LANGUAGE sql AS \$\$ SELECT $home \$\$;" >sql/room/room.sql
    build
    [ "$status" -eq 0 ]
    [[ $output == *"SELECT '@extschema@'::regnamespace"* ]]
}

@test "a function or a view that looks for the extension otherwise is an error" {
    for statement in "CREATE FUNCTION idem_home() RETURNS text LANGUAGE sql AS \$\$ SELECT extversion FROM pg_extension WHERE extname = 'idem' \$\$" \
        "CREATE VIEW idem_home AS SELECT extversion FROM pg_extension WHERE extname = 'idem'"; do
        echo "$statement;" >sql/room/room.sql
        build
        [ "$status" -eq 1 ]
        [[ $output == 'portable.py: only '*' can be translated: CREATE '*idem_home* ]]
    done
}

@test "a function in C without a body is an error" {
    echo "CREATE FUNCTION idem_home(key text) RETURNS text LANGUAGE c AS 'MODULE_PATHNAME';" >sql/room/room.sql
    build
    [ "$status" -eq 1 ]
    [ "$output" = 'portable.py: idem_home(text) has no body in sql/portable' ]
}

@test "a file that is neither in sql/ nor below sql/portable is an error" {
    build
    [ "$status" -eq 1 ]
    [ "$output" = 'portable.py: there is neither sql/room/room.sql nor sql/portable/room/room.sql' ]
}
