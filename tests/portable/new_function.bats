# scripts/new-function writes a function that both editions accept, and a test that names what is missing.

load common

setup_file() {
    build_portable
    export copy=$BATS_FILE_TMPDIR/idem
    mkdir "$copy"
    (cd "$root" && tar --create --exclude=./build --exclude=./.git --exclude="*.o" --exclude="*.bc" --exclude="*.so" --exclude=node_modules .) | tar --extract --no-same-owner --directory="$copy"
    "$copy/scripts/new-function" tokens idem_token_color >"$BATS_FILE_TMPDIR/changed"
}

@test "the function is in both editions, and its test fails by name" {
    psql -XAtqc 'CREATE DATABASE new_function TEMPLATE template0'
    export PGDATABASE=new_function
    make --silent --directory="$copy" portable
    psql -Xq --file="$copy/build/idem--portable.sql"
    psql -Xqc 'CREATE SCHEMA tap' -c 'CREATE EXTENSION pgtap SCHEMA tap' -c 'ALTER DATABASE new_function SET search_path = idem, tap, public'
    run psql -XAtq --file="$copy/tests/pgtap/tokens/token_color.sql"
    PGDATABASE=postgres psql -Xqc 'DROP DATABASE new_function'
    echo "$output"
    [[ $output == *'not ok 1 - idem_token_color_returns'* ]]
    [[ $output == *'ok 2 - null_is_an_error'* ]]
    [ "$(grep --count '^SQL_FUNCTION(idem_token_color)' "$copy/extension/src/tokens/token_color.cpp")" -eq 1 ]
}

@test "every list of functions has it" {
    while read -r file; do grep --quiet idem_token_color "$copy/$file" || { echo "$file"; return 1; }; done <"$BATS_FILE_TMPDIR/changed"
    [ "$(wc -l <"$BATS_FILE_TMPDIR/changed")" -eq 11 ]
    python3 -m json.tool "$copy/tests/drivers/calls.json" >/dev/null
    perl -c "$copy/tests/recovery/IdemCalls.pm"
    grep --quiet --after-context=20 '^## 4. Tokens' "$copy/docs/contract.md" && grep --quiet '^idem_token_color(value text) -> text immutable$' "$copy/docs/contract.md"
}

@test "it rejects a name that is there, that fits no room, and a room that is none" {
    run "$copy/scripts/new-function" tokens idem_token_issue
    [ "$status" -eq 1 ] && [ "$output" = 'idem_token_issue is there already' ]
    run "$copy/scripts/new-function" tokens token_color
    [ "$status" -eq 1 ] && [ "$output" = 'no name of a function of tokens: token_color' ]
    run "$copy/scripts/new-function" storages idem_token_colors
    [ "$status" -eq 1 ] && [[ $output == 'no room of SQL functions: storages; '* ]]
}
