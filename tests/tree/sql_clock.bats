# A time that decides an outcome or an end is read after the last wait before it is used. tests/tree/sql_clock lists each call of the clock in sql/, in the
# order of the sources, with that wait: a new call needs a line.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

# FILE | FUNCTION, TABLE, VIEW OR PART, a line for each call.
calls() {
    find sql -name '*.sql' | LC_ALL=C sort | while IFS= read -r file; do
        awk -v file="$file" '
            {sub(/--.*/, "")}
            match($0, /^(PART|CREATE (FUNCTION|PROCEDURE|VIEW)) [a-z_0-9]+/) {name = substr($0, RSTART, RLENGTH); sub(/.* /, "", name)}
            {
                rest = tolower($0)
                while (match(rest, /(^|[^a-z_])((clock|statement|transaction)_timestamp|timeofday|now)\(\)|(^|[^a-z_])(current_(timestamp|date|time)|localtime(stamp)?)([^a-z_]|$)/)) {
                    print file " | " name
                    rest = substr(rest, RSTART + RLENGTH)
                }
            }' "$file"
    done
}

@test "the clock is read after the last wait before its time is used" {
    run diff <(grep --invert-match --extended-regexp '^(#|$)' tests/tree/sql_clock | sed -E 's/^([^|]* \| [^|]*) \| .+$/\1/') <(calls)
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}
