# A time that decides an outcome or an end is read after the last wait before it is used. tests/tree/clock lists each line of extension/src that reads a
# clock, with that wait: a new one needs a line there. sql_clock.bats does so for sql/.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

# FILE | the line, as it stands.
calls() {
    grep --recursive --include='*.[ch]pp' --extended-regexp '\b(clock_now|GetCurrentTimestamp|GetCurrentTransactionStartTimestamp|GetSQLCurrentTimestamp|gettimeofday|time)\(\)|\btime\(nullptr\)' extension/src |
        grep --invert-match --extended-regexp ':[ ]*//' | sed -E 's/: */ | /' | LC_ALL=C sort
}

@test "the extension reads the clock after the last wait before its time is used" {
    run diff <(sed -n -E '/^extension/s/ \| [^|]*$//p' tests/tree/clock | LC_ALL=C sort) <(calls)
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}
