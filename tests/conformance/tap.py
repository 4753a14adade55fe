#!/usr/bin/env python3
"""The JSON of `idem http-test` on stdin as TAP: a test for each case. tap.py APP PROFILE"""
import json
import pathlib
import sys


def todo(app, profile):
    for line in (pathlib.Path(__file__).parent / "todo").read_text().splitlines():
        if line and not line.startswith("#"):
            of_app, of_profile, case, reason = line.split(maxsplit=3)
            if of_app in ("*", app) and of_profile in ("*", profile):
                yield case, reason


def main():
    app, profile = sys.argv[1:]
    known = dict(todo(app, profile))
    for each in json.load(sys.stdin)["cases"]:
        ok = "not ok" if each["result"] == "failed" else "ok"
        note = f" # SKIP needs {each['needs']}" if each["result"] == "skipped" else ""
        if each["result"] == "failed" and each["case"] in known:
            note = f" # TODO {known[each['case']]}"
        print(f"{ok} - {app} {profile} {each['case']}{note}")
        if each["result"] == "failed":
            print(f"#   expected: {each['expected']}\n#   seen:     {each['seen']}\n#   rule:     {each['rule']}")


if __name__ == "__main__":
    main()
