# The code of docs/requests.md makes the signatures that idem_verify_request wants: tests/vectors/signed_requests.json, which
# tests/pgtap/requests/verify_request.sql checks against the functions. No server.

load helper

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    vectors=$root/tests/vectors/signed_requests.json
}

# The blocks of a language in the document.
recipe() { awk -v fence="^\`\`\`$1\$" '/^```$/ { inside = 0 } inside; $0 ~ fence { inside = 1 }' "$root/docs/requests.md"; }

@test "Python: the recipe's signatures are right" {
    recipe python >"$BATS_TEST_TMPDIR/recipe.py"
    run "$PYTHON" - "$vectors" "$BATS_TEST_TMPDIR/recipe.py" <<'PY'
import json, sys
from decimal import Decimal

given = json.load(open(sys.argv[1], encoding="utf-8"))
recipe = compile(open(sys.argv[2], encoding="utf-8").read(), "docs/requests.md", "exec")
checked, wrong = 0, []
for vector in given["vectors"]:
    for parse_float in {"decimal": [Decimal]}.get(vector["numbers"], [float, Decimal]):
        made = {"secret": given["secret"].encode(), "key_id": vector["key_id"], "micros": vector["micros"],
                "nonce": vector["nonce"], "params": json.loads(vector["params"], parse_float=parse_float)}
        exec(recipe, made)
        checked += 1
        if made["signature"] != vector["signature"]:
            wrong.append(f"{vector['name']} ({parse_float.__name__}): {made.get('message')}, not {vector['message']}")
print(checked, "checked", *wrong, sep="\n")
sys.exit(bool(wrong) or checked < 20)
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "JavaScript: the recipe's signatures are right" {
    # A function of the recipe, which names the variables that it takes for granted.
    recipe js | awk '/^import / { print; next } { body = body $0 "\n" }
        END { print "export default (secret, keyId, micros, nonce, params) => {\n" body "return { message, signature };\n};" }' \
        >"$BATS_TEST_TMPDIR/recipe.mjs"
    cat >"$BATS_TEST_TMPDIR/check.mjs" <<'JS'
import { readFileSync } from "node:fs";
import sign from "./recipe.mjs";

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
// JavaScript has no decimals; whole numbers beyond 2^53 are bigints.
const readers = { double: JSON.parse, integer: (text) => eval(`(${text.replace(/\d{16,}/g, "$&n")})`) };
const vectors = given.vectors.filter(({ numbers }) => numbers in readers), wrong = [];
for (const { name, numbers, params, key_id, micros, nonce, message, signature } of vectors) {
  const made = sign(given.secret, key_id, micros, nonce, readers[numbers](params));
  if (made.signature !== signature) wrong.push(`${name}: ${made.message}, not ${message}`);
}
console.log([`${vectors.length} checked`, ...wrong].join("\n"));
process.exit(wrong.length > 0 || vectors.length < 10 ? 1 : 0);
JS
    run node "$BATS_TEST_TMPDIR/check.mjs" "$vectors"
    echo "$output"
    [ "$status" -eq 0 ]
}
