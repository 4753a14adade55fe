# monitoring/alerts.yaml and dashboard.json: rules that Prometheus takes, and panels, on metrics that monitoring/queries.yaml gives.

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

@test "the panels of the dashboard show each metric of the queries, and nothing else" {
    python3 - <<'PY'
import json, re, sys

given, labels = set(), set()
for name, text in re.findall(r"^(\w+):\n((?:  .*\n|\n)+)", open("queries.yaml").read(), re.MULTILINE):
    for metric, usage in re.findall(r"^    - (\w+):\n        usage: \"(\w+)\"$", text, re.MULTILINE):
        if usage == "LABEL":
            labels.add(metric)
        else:
            given.add(f"{name}_{metric}")
board = json.load(open("dashboard.json"))
panels, variables = board["panels"], board["templating"]["list"]
targets = [target for panel in panels for target in panel["targets"]]
used = {metric for target in targets for metric in re.findall(r"\bidem_\w+", target["expr"])}
shown = {label for target in targets for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
named = set(re.findall(r"\$\{?(\w+)", json.dumps(board))) - {"__all", "__rate_interval"}
cells = [(x, y) for panel in panels for at in [panel["gridPos"]] for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
faults = {
    "no metrics": not given or not used,
    f"not in queries.yaml: {used - given}": used - given,
    f"on no panel: {given - used}": given - used,
    f"no label of a query: {shown - labels}": shown - labels,
    f"variables: {named}": named != {variable["name"] for variable in variables},
    "a data source of one installation": any(part["datasource"] != {"type": "prometheus", "uid": "${datasource}"} for part in (*panels, *targets, *variables[1:])),
    "panels that overlap": len(cells) != len(set(cells)),
    "panels of the same id": len(panels) != len({panel["id"] for panel in panels}),
}
sys.exit("\n".join(fault for fault, is_there in faults.items() if is_there) or 0)
PY
}

# A rule for each expression of the panels, with a value for each variable.
rules_of_panels() {
    python3 - <<'PY'
import json

expressions = [target["expr"] for panel in json.load(open("dashboard.json"))["panels"] for target in panel["targets"]]
rules = [{"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m").replace("$datname", "shop|bank").replace("$scope", ".*")}
         for number, text in enumerate(expressions)]
print(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
PY
}

@test "promtool takes the expressions of the panels" {
    command -v promtool >/dev/null || skip "there is no promtool"
    rules_of_panels >"$BATS_TEST_TMPDIR/panels.yaml"
    promtool check rules "$BATS_TEST_TMPDIR/panels.yaml" | grep -E '[1-9][0-9]* rules found'
}
