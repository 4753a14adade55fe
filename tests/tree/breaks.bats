# The broken builds of the chaos test are patches, which a change of the code can outdate.

@test "each patch of a broken build applies" {
    cd "$BATS_TEST_DIRNAME/../.."
    for patch in tests/chaos/breaks/*.patch tests/chaos/portable_breaks/*.patch; do
        run patch --dry-run --strip=1 --fuzz=0 --input="$patch"
        [ "$status" -eq 0 ] || { echo "$patch: $output"; false; }
    done
}
