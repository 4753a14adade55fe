# The broken builds of the chaos test are patches, which a change of the code can outdate.

@test "each patch in tests/chaos/breaks applies" {
    cd "$BATS_TEST_DIRNAME/../.."
    for patch in tests/chaos/breaks/*.patch; do
        run patch --dry-run --strip=1 --fuzz=0 --input="$patch"
        [ "$status" -eq 0 ] || { echo "$patch: $output"; false; }
    done
}
