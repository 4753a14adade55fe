# What stands in two documents is the same in both.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "docs/http.md has the example that each package's README begins with" {
    python3 - <<'PY'
import pathlib, re, sys

page = pathlib.Path("docs/http.md").read_text()
for readme in sorted(pathlib.Path("integrations").glob("*/README.md")):
    block = re.search(r"^```\w+\n.*?^```$", readme.read_text(), re.MULTILINE | re.DOTALL)[0]
    if block not in page:
        sys.exit(f"docs/http.md lacks the first example of {readme}")
PY
}

@test "the packages have the version of the extension" {
    version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control)
    grep --fixed-strings "\"version\": \"$version\"" integrations/node/package.json
    grep --fixed-strings --line-regexp "version = \"$version\"" integrations/python/pyproject.toml
    grep --fixed-strings --line-regexp "    <version>$version</version>" integrations/java/pom.xml
    grep --fixed-strings --line-regexp "const Version = \"$version\"" integrations/go/portable/portable.go
    [ "$(python3 -c 'import json; meta = json.load(open("META.json")); print(meta["version"], meta["provides"]["idem"]["version"])')" = "$version $version" ]
    [[ $(head -n 1 debian/changelog) == "idem ($version"[-~]* ]]
}

@test "the packages look idem up by one statement" {
    python3 - <<'PY'
import pathlib, re, sys

def statement(path, start, end):
    text = (pathlib.Path("integrations") / path).read_text().split(start, 1)[1].split(end, 1)[0]
    return re.sub(r"\s+", " ", text).strip()

node = statement("node/lib/install.js", "const lookup = `", "`").replace("$1::pg_catalog.name", "?")
python = statement("python/src/idem_postgres/installation.py", '_LOOKUP = """\\', '"""').replace("CAST(%s AS pg_catalog.name)", "?")
java = statement("java/src/idem/postgres/IdemSchema.java", 'LOOKUP = "', '";').replace('" + "', "").replace("?::pg_catalog.name", "?")
go = statement("go/portable/portable.go", "const lookup = `", "`").replace("$1::pg_catalog.name", "?")
if not node == python == java == go:
    sys.exit("\n".join([node, python, java, go]))
version = pathlib.Path("sql/portable/operations/version.sql").read_text().replace("@version@", "1.0.0")
own = re.search(r"p\.prosrc, '(.*?)'\)", node)[1].replace("''", "'")
if not re.search(own.lstrip("^"), version):
    sys.exit(f"the body of idem_version does not begin with {own}")
PY
}

@test "debian/control and debian/tests/control are those of the newest server" {
    for file in debian/control debian/tests/control; do
        diff "$file" <(sed 's/PGVERSION/18/g' "$file.in")
    done
}
