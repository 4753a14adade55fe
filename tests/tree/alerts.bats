# monitoring/alerts.yaml: rules that Prometheus takes, on metrics that monitoring/queries.yaml gives.

setup() { cd "$BATS_TEST_DIRNAME/../../monitoring"; }

@test "each metric of the alerts is one of the queries" {
    python3 - <<'PY'
import re, sys

queries = open("queries.yaml").read()
given = {f"{name}_{metric}" for name, text in re.findall(r"^(\w+):\n((?:  .*\n|\n)+)", queries, re.MULTILINE)
         for metric in re.findall(r"^    - (\w+):$", text, re.MULTILINE)}
used = {metric for expression in re.findall(r"expr: (.*)", open("alerts.yaml").read()) for metric in re.findall(r"\bidem_\w+", expression)}
sys.exit(f"not in queries.yaml: {used - given}" if not used or used - given else 0)
PY
}

@test "promtool takes the rules, and they fire when they should" {
    command -v promtool >/dev/null || skip "there is no promtool"
    promtool check rules alerts.yaml
    promtool test rules alerts.test.yaml
}
