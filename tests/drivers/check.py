"""Makes the calls of calls.json through one driver, and prints TAP.

    check.py DRIVER PROGRAM [ARGUMENT ...]

PROGRAM is the driver's: it reads a request a line, {"do": "run", "sql": ..., "args": [[kind, value], ...]}, {"do": "begin" | "commit" | "rollback"} or
{"do": "batch", "statements": [{"sql", "args"}, ...]}, and answers each with a line: {"columns": [...], "rows": [[[native type, value], ...], ...]}, or {"error": {"sqlstate", "type", "message"}}.
The statements have $1, $2, each once and in this order. With IDEM_POOLED set it goes through a pooler in transaction mode.

A case of calls.json is a list of steps: a statement, with what it returns ("rows", only the columns that are named) or raises ("error", null for an
error without an SQLSTATE), or "begin", "commit", "rollback", or a "batch" of statements, [sql, argument, ...] each. "except" has what other drivers see, by their names, or "NAME:pooled"; the first that
fits counts. "times" repeats a statement, "drivers" limits a case to some.
A JSON object in the place of an argument or a result names the kind of value: argument() and compare() have them.
"""

import datetime
import decimal
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).parent
DOCUMENT = here / "../../docs/drivers.md"
SECRET = b"0123456789abcdef0123456789abcdef"  # as in database.sql
POOLED = "IDEM_POOLED" in os.environ
NOW = datetime.datetime.now(datetime.timezone.utc).isoformat()


class Failure(Exception):
    pass


class Driver:
    def __init__(self, name, command):
        self.name = name
        self.names = {name, f"{name}:pooled"} if POOLED else {name}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.in_transaction = False

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the program ended")
        return json.loads(line)

    def control(self, word):
        self.in_transaction = False
        answer = self.ask({"do": word})
        if "error" in answer:
            raise Failure(f"{word}: {answer['error']}")
        self.in_transaction = word == "begin"

    def run(self, sql, args):
        return self.ask({"do": "run", "sql": sql, "args": args})

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def argument(value, kept):
    """The [kind, value] of an argument."""
    if value is None:
        return ["null", None]
    if isinstance(value, dict):
        ((kind, value),) = value.items()
        if kind == "kept":
            return kept[value]
        if kind == "hmac":
            return ["text", hmac.new(SECRET, kept[value][1].encode(), hashlib.sha256).hexdigest()]
        if kind == "time" and value == "now":
            return [kind, NOW]
        if kind == "bigints":
            return [kind, [kept[element["kept"]][1] for element in value]]
        return [kind, value]
    return [{bool: "bool", int: "int", float: "float", str: "text"}[type(value)], value]


def compare(found, expected, kept):
    """Whether it is what is expected; else raises."""
    if not isinstance(expected, dict):
        return found == expected and type(found) is type(expected)
    ((kind, expected),) = expected.items()
    if found is None:
        return False
    if kind == "bigint":
        return re.fullmatch(r"-?\d+", str(found)) and expected in (None, int(found))
    if kind == "numeric":
        return decimal.Decimal(str(found)) == decimal.Decimal(expected)
    if kind == "json":
        return (json.loads(found) if isinstance(found, str) else found) == expected
    if kind == "bytes":
        return re.fullmatch(r"([0-9a-f]{2})+", found) and expected in (None, found)
    if kind == "digits":
        return found == kept[expected][1]
    if kind == "text":
        return isinstance(found, str)
    assert kind in ("any", "time"), kind
    return True


def keep(column, found, expected):
    ((kind, _),) = expected.items()
    return [kind, str(found) if kind == "bigint" else found]


def widen_the_pool(driver, command):
    """Two transactions at a time: from now on the pooler has two connections to the server, which it gives out by turns."""
    other = Driver(driver.name, command)
    for each in driver, other:
        each.control("begin")
        each.run("SELECT 1", [])
    for each in driver, other:
        each.control("commit")
    other.end()


def check_step(driver, step, kept):
    expected = step
    for names, other in step.get("except", {}).items():
        if driver.names & set(names.split()):
            expected = other
            break
    answer = driver.run(step["sql"], [argument(value, kept) for value in step["args"]])
    if "error" in answer or "error" in expected:
        if "error" not in expected or "error" not in answer or answer["error"]["sqlstate"] != expected["error"]:
            raise Failure(f"{step['sql']}\n{step['args']}\nfound {answer}\nexpected {expected.get('error', expected.get('rows'))}")
        return
    rows = [{column: value for column, (_, value) in zip(answer["columns"], row)} for row in answer["rows"]]
    same = len(rows) == len(expected["rows"]) and all(
        column in row and compare(row[column], value, kept)
        for row, columns in zip(rows, expected["rows"]) for column, value in columns.items())
    if not same:
        raise Failure(f"{step['sql']}\n{step['args']}\nfound {rows}\nexpected {expected['rows']}")
    for column in step.get("keep", []):
        kept[column] = keep(column, rows[0][column], expected["rows"][0][column])


def check_batch(driver, step, kept):
    statements = [{"sql": sql, "args": [argument(value, kept) for value in args]} for sql, *args in step["batch"]]
    found = driver.ask({"do": "batch", "statements": statements}).get("error", {"sqlstate": None})
    if found["sqlstate"] != step.get("error"):
        raise Failure(f"{step['batch']}\nfound {found}\nexpected {step.get('error')}")


def check_case(driver, steps):
    kept = {}
    try:
        for step in steps:
            if isinstance(step, str):
                driver.control(step)
            elif "batch" in step:
                check_batch(driver, step, kept)
            else:
                for _ in range(step.get("times", 1)):
                    check_step(driver, step, kept)
    finally:
        if driver.in_transaction:
            driver.control("rollback")


def documented(driver, first_column):
    """The driver's row in the table of docs/drivers.md whose first column, after the driver, is that: {column: the first `code` of the cell}."""
    lines = DOCUMENT.read_text().splitlines()
    header = next(line for line in lines if line.startswith(f"| driver | {first_column}"))
    row = next(line for line in lines[lines.index(header) :] if line.startswith(f"| {driver.name} |"))
    columns, cells = ([cell.strip() for cell in line.split("|")[2:-1]] for line in (header, row))
    return {column.strip("`"): re.search("`([^`]*)`", cell)[1] for column, cell in zip(columns, cells)}


def check_types(driver):
    expected = documented(driver, "`bigint`")
    samples = {"bigint": "1", "boolean": "'t'", "timestamptz": "now()", "bytea": "'\\x00'", "jsonb": "'{}'", "interval": "'30 s'", "numeric": "1",
               "idem.idem_outcome": "'completed'"}
    row = driver.run("SELECT " + ", ".join(f"CAST({samples[name]} AS {name}) AS c{i}" for i, name in enumerate(expected)), [])["rows"][0]
    found = {name: native for name, (native, _) in zip(expected, row)}
    if found != expected:
        raise Failure(f"found {found}\ndocumented {expected}")


def check_exception(driver):
    expected = documented(driver, "exception")["exception"]
    found = driver.run("SELECT idem.idem_check_transition('order', 'paid', 'created')", [])["error"]["type"]
    if found != expected:
        raise Failure(f"found {found}\ndocumented {expected}")


def main():
    name, *command = sys.argv[1:]
    driver = Driver(name, command)
    how = f"{name}{', pooled' if POOLED else ''}"
    if POOLED:
        widen_the_pool(driver, command)
    cases = [(case["name"], lambda case=case: check_case(driver, case["steps"]))
             for case in json.loads((here / "calls.json").read_text()) if name in case.get("drivers", name).split()]
    cases.append(("types are those of docs/drivers.md", lambda: check_types(driver)))
    cases.append(("the exception is that of docs/drivers.md", lambda: check_exception(driver)))
    print(f"1..{len(cases)}")
    failed = False
    for number, (title, check) in enumerate(cases, 1):
        try:
            check()
            print(f"ok {number} - {how}: {title}", flush=True)
        except (Failure, KeyError) as error:
            failed = True
            print(f"not ok {number} - {how}: {title}")
            for line in str(error).splitlines():
                print(f"  # {line}", flush=True)
    if driver.end() != 0:
        print(f"not ok - {how}: the program ended with {driver.process.returncode}")
        failed = True
    sys.exit(failed)


main()
