# The Chinese pages have the code of the English ones, which tests/docs runs, and no number or name of their own. `scripts/zh.py --behind` lists the pages whose English page changed later.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "a Chinese page has the code blocks, the rows of tables, the numbers and the names of its English page" {
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

@test "the comparison finds a row that says less, a wrong number, and a name that no English page has" {
    pages=$BATS_TEST_TMPDIR/docs
    mkdir -p "$pages/zh"
    cp docs/*.md "$pages"
    sed 's/`idem_complete`、`idem_release` 都报 ID001/`idem_complete` 都报 ID001/' docs/zh/leases.md >"$pages/zh/row.md"
    sed 's/每个 1,700 万/每个 17 万/' docs/zh/operations.md >"$pages/zh/number.md"
    sed 's/先问过滤器/先问 `idem_ask_filter`，不行就报 25P09/' docs/zh/schemes.md >"$pages/zh/name.md"
    run scripts/zh.py "$pages"/zh/*.md
    [[ $output == *"zh/row.md:32: this row is not in docs/leases.md"* ]]
    [[ $output == *"zh/number.md:"*": 170000 is on no English page that this one names or links to"* ]]
    [[ $output == *"zh/name.md:"*": 25P09 is on no English page"*"zh/name.md:"*": idem_ask_filter is on no English page"* ]]
}

@test "English pages lead to their Chinese pages, and these back to README.zh.md" {
    grep -qF '[中文](README.zh.md)' README.md
    for page in agents choosing http leases schemes try; do
        grep -qF "[中文](zh/$page.md)" "docs/$page.md" || { echo "docs/$page.md has no link"; false; }
    done
    for page in docs/zh/*.md; do
        grep -qF '[首页](../../README.zh.md)' "$page" || { echo "$page has no link"; false; }
    done
}
