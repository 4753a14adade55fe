# idem(7), which scripts/manual.py makes of the pages of the reference.

bats_require_minimum_version 1.5.0

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "the man page has each function, setting and SQLSTATE of the reference" {
    scripts/manual.py >"$BATS_TEST_TMPDIR/idem.7"
    expected=$({
        sed -nE 's/^\| \[`(CALL |view )?([a-z0-9_]+).*/\2/p' docs/functions.md
        sed -nE 's/^\| \[`(idem\.[a-z_]+)`.*/\1/p' docs/settings.md
        sed -nE 's/^\| ([0-9A-Z]{5})[ ,].*/\1/p' docs/errors.md
    } | sort -u)
    [ "$(wc -l <<<"$expected")" -gt 150 ]
    run comm -23 <(echo "$expected") <(sed -nE 's/^\.B (CALL |view )?([A-Za-z0-9_.]+).*/\2/p' "$BATS_TEST_TMPDIR/idem.7" | sort -u)
    [ -z "$output" ] || { echo "not in idem(7): $output"; false; }
}

@test "the man page formats without a warning, and no Markdown is left in it" {
    scripts/manual.py >"$BATS_TEST_TMPDIR/idem.7"
    run ! grep -nE '`|\]\(|\*\*' "$BATS_TEST_TMPDIR/idem.7"
    command -v groff >/dev/null || skip "there is no groff"
    LC_ALL=C.UTF-8 run --separate-stderr groff -man -Tutf8 -ww -rF0 "$BATS_TEST_TMPDIR/idem.7"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}
