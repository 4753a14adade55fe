# Each dependency's versions are told apart in one file, so that one place shows what a new version takes.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

# files_with PATTERN: of what idem is made of, and of the tests that are compiled with it.
files_with() { grep --recursive --files-with-matches --extended-regexp --include='*.[ch]pp' --include='*.[ch]' -- "$1" \
    extension client bench examples tests/unit tests/client tests/consumer tests/chaos tests/fuzz | sort; }

@test "PostgreSQL's version is looked at in extension/src/server/compat.hpp alone" {
    run files_with 'PG_VERSION_NUM|PG_MAJORVERSION|CATALOG_VERSION_NO'
    [ "$output" = extension/src/server/compat.hpp ] || { echo "$output"; false; }
}

@test "libpqxx's version is looked at in client/include/idem/pqxx_compat.hpp alone" {
    run files_with 'PQXX_VERSION_(MAJOR|MINOR)|PQXX_ABI'
    [ "$output" = client/include/idem/pqxx_compat.hpp ] || { echo "$output"; false; }
}

@test "the compiler's version is not looked at" {
    run files_with '__GNUC__|__clang_major__|__GNUC_MINOR__'
    [ -z "$output" ] || { echo "$output"; false; }
}
