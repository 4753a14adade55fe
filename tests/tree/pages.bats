# What the pages promise of each other: links lead somewhere, and the reference is complete.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "each link of a page leads to a file, and to a heading of it" {
    python3 - <<'PY'
import pathlib, re, subprocess, sys

def anchors(page):
    found, seen = set(), {}
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip())
        name = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
        found.add(name if name not in seen else f"{name}-{seen[name]}")
        seen[name] = seen.get(name, 0) + 1
    return found

if pathlib.Path(".git").exists():
    pages = [pathlib.Path(name) for name in subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                                                           check=True, capture_output=True, text=True).stdout.split()]
else:  # the matrix has copies without it
    pages = [page for page in pathlib.Path().rglob("*.md") if "build" not in page.parts]
faults = []
for page in pages:
    text = re.sub(r"^( *)```.*?^ *```|`[^`\n]*`(?!\])", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"(?<!\\)\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        target = target[0] or target[1]
        if re.match(r"\w+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists():
            faults.append(f"{page}: {target}: there is no such file")
        elif fragment and file.suffix == ".md" and fragment not in anchors(file):
            faults.append(f"{page}: {target}: there is no such heading")
sys.exit("\n".join(faults) or 0)
PY
}

# The codes of docs/errors.md, one on each line.
listed() { grep -oE '^\| [0-9A-Z, ]+ \|' docs/errors.md | grep -oE '[0-9A-Z]{5}' | sort -u; }

@test "docs/errors.md has every SQLSTATE of idem's own" {
    own=$(sed -nE "s/^#define ERRCODE_IDEM_.*\('(.)', '(.)', '(.)', '(.)', '(.)'\)/\1\2\3\4\5/p" extension/src/server/errors.hpp | sort)
    [ -n "$own" ]
    run comm -23 <(echo "$own") <(listed)
    [ -z "$output" ] || { echo "not in docs/errors.md: $output"; false; }
}

@test "docs/errors.md has every SQLSTATE that docs/contract.md names" {
    run comm -23 <(grep -oE '\b(ID[0-9]{3}|(08|09|0A|21|22|23|25|2B|2D|40|42|53|54|55|57|XX)[0-9A-Z]{3})\b' docs/contract.md | sort -u) <(listed)
    [ -z "$output" ] || { echo "not in docs/errors.md: $output"; false; }
}

@test "docs/errors.md has every SQLSTATE that the extension raises" {
    header=$("${PG_CONFIG:-pg_config}" --includedir-server)/utils/errcodes.h
    [ -f "$header" ] || skip "there are no server headers"
    # Of those that no caller can cause or handle: out of memory, internal errors.
    run comm -23 <(grep -rhoE 'errcode\(ERRCODE_\w+|ERRCODE_\w+\)?,' extension/src | grep -oE 'ERRCODE_\w+' | sort -u | grep -vE 'IDEM_|OUT_OF_MEMORY|INTERNAL_ERROR' |
        while read -r name; do sed -nE "s/^#define $name MAKE_SQLSTATE\('(.)','(.)','(.)','(.)','(.)'\)/\1\2\3\4\5/p" "$header"; done | sort -u) <(listed)
    [ -z "$output" ] || { echo "not in docs/errors.md: $output"; false; }
}

@test "llms.txt leads to files, and to each page of the rooms" {
    links=$(grep -oE '\]\([^)]+\)' llms.txt | tr -d '](' | tr -d ')')
    for file in $links; do [ -f "$file" ] || { echo "$file"; false; }; done
    for page in keys leases http tokens ids locks rows machines outbox requests webhooks scopes agents; do grep -qx "docs/$page.md" <<<"$links" || { echo "docs/$page.md"; false; }; done
}

@test "the pages keep to the rules for English" {
    run scripts/lint-english.sh
    [ "$status" -eq 0 ] || { echo "$output"; false; }
}

@test "the linter for English finds what it looks for" {
    printf '%s\n' 'Whoever asks first waits.' 'Errors besides these are raised.' 'What is stored is replayed.' '`besides` is a word.' \
        '' '```' 'whoever' '```' >"$BATS_TEST_TMPDIR/page.md"
    run scripts/lint-english.sh "$BATS_TEST_TMPDIR/page.md"
    [ "$status" -eq 1 ]
    [ "$(grep -c ': write ' <<<"$output")" -eq 3 ]
}

@test "the linter for English reads the comments of sources, and not their code" {
    printf '%s\n' '// Whoever waits,' '/* and comes' ' * through */ int besides;' 'const char *text = "anew // besides"; // `anew`' >"$BATS_TEST_TMPDIR/source.cpp"
    printf '%s\n' 'besides = "anew # besides"  # in vain' '"""A caller besides others."""' >"$BATS_TEST_TMPDIR/source.py"
    printf '%s\n' 'const quoted = /["`]/; // anew' 'const text = `besides // ${quoted}' 'besides`;' >"$BATS_TEST_TMPDIR/source.ts"
    run scripts/lint-english.sh "$BATS_TEST_TMPDIR"/source.{cpp,py,ts}
    [ "$status" -eq 1 ]
    [ "$(sed -nE 's/^.*source\.(\w+:[0-9]+): .*/\1/p' <<<"$output" | xargs)" = 'cpp:1 cpp:2 py:1 py:2 ts:1' ] || { echo "$output"; false; }
}
