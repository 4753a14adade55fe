# The Chinese pages have the code of the English ones, which tests/docs runs. `scripts/zh.py --behind` lists the pages whose English page changed later.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "each code block of a Chinese page is a block of its English page" {
    run scripts/zh.py
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}

@test "the comparison finds a changed block, a missing one, and a page that names no English one" {
    changed=$BATS_TEST_TMPDIR/changed.md missing=$BATS_TEST_TMPDIR/missing.md nameless=$BATS_TEST_TMPDIR/nameless.md
    sed 's/^SELECT idem_claim(/SELECT  idem_claim(/' docs/zh/schemes.md >"$changed"
    awk '/^```sql/ && !done { skip = 1 } !skip { print } skip && /^```$/ { skip = 0; done = 1 }' docs/zh/schemes.md >"$missing"
    sed 1d docs/zh/schemes.md >"$nameless"
    run scripts/zh.py "$changed" "$missing" "$nameless"
    [ "$status" -eq 1 ]
    [[ $output == *"$changed:"*"this block is not in docs/schemes.md"* ]]
    [[ $output == *"$missing:1: the block of docs/schemes.md:"*" is missing"* ]]
    [[ $output == *"$nameless:1: the first line does not name the English page"* ]]
}

@test "English pages lead to their Chinese pages, and these back to README.zh.md" {
    grep -qF '[中文](README.zh.md)' README.md
    for page in choosing http leases schemes; do
        grep -qF "[中文](zh/$page.md)" "docs/$page.md" || { echo "docs/$page.md has no link"; false; }
    done
    for page in docs/zh/*.md; do
        grep -qF '[首页](../../README.zh.md)' "$page" || { echo "$page has no link"; false; }
    done
}
