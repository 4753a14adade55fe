# A function in public whose types are exactly those that a driver sends is called before one of pg_catalog whose types are not.

setup() { cd "$BATS_TEST_DIRNAME/../.."; }

@test "the packages, the client and the command qualify the server's functions" {
    python3 - <<'PY'
import pathlib, re, sys

COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)
LITERAL = re.compile(r'"""(.*?)"""|`([^`]*)`|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'', re.DOTALL)
IDEM = re.compile(r"idem_|optimistic_|conditional_|pessimistic_|(unique|guarded)_insert$")
SYNTAX = {"coalesce", "nullif"}
places = {"integrations/node": ("js",), "integrations/python": ("py",), "integrations/java": ("java",), "integrations/go": ("go",), "client": ("cpp", "hpp")}
found, statements = [], 0
for place, endings in places.items():
    for path in sorted(p for ending in endings for p in pathlib.Path(place).rglob(f"*.{ending}")):
        text = path.read_text()
        if path.suffix != ".py":
            text = re.sub(r'"\s*\+?\s*"', "", COMMENT.sub("", text))
        if "examples" in path.parts or path.name.endswith("_test.go"):
            continue
        for literal in LITERAL.findall(text):
            sql = re.sub(r"\$?\{[^{}]*(\}|$)", "x", "".join(literal))
            if not re.search(r"\b(SELECT|CALL|ORDINALITY) |\?::|pg_catalog", sql) or "`" in sql: # a docstring
                continue
            statements += 1
            for name in re.findall(r"(?<![\w.@$%\\])([a-z][a-z0-9_]*)\(", sql):
                if name not in SYNTAX and not IDEM.match(name):
                    found.append(f"{path}: {name} is not qualified")
print(statements, "statements")
sys.exit("\n".join(found) if found else 0 if statements > 100 else "too few statements were found")
PY
}
