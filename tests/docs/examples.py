#!/usr/bin/env python3
"""Runs the SQL of README.md, docs/*.md and docs/tutorials/*.md and compares what the pages show with what happens. Prints TAP, a test for each page.
The Chinese pages have blocks of these (tests/tree/zh.bats); only the quick start puts them in an order of its own, so it runs, too.

    examples.py [--portable] [PAGE ...]    every page, or these (docs/keys.md); the server is the one of PGHOST

The blocks of a page run in order, in one session, in a database `shop` of their own: with idem in the schema `idem`, unless the page creates the extension
itself, and with what tests/docs/setup/PAGE.sql makes, for a tutorial tests/docs/setup/tutorials/PAGE.sql. With --portable the session is one of the database's owner, who is no superuser and has installed
build/idem--portable.sql; pages that tests/portable/exceptions names are skipped, and CREATE EXTENSION is not run. A block behind the line "<!-- not run: why -->" is left out.

Shown are a table as psql prints it, without the count of rows; lines that begin with ERROR, DETAIL and HINT; and a comment behind a query, or with two
blanks in the line below it, which begins with the row that the query returns. Shown numbers of 15 and more digits, times, UUIDs and tokens differ from run to run; where such a number was
shown, later statements are given the real one.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETUP = ROOT / "tests/docs/setup"
PORTABLE = ROOT / "build/idem--portable.sql"
OWNER = "shop_owner"  # of the database with the portable edition
MARK = "@@ end of a statement"
VARYING = [re.compile(pattern) for pattern in (
    r"\d{15,}",                                          # fences, ids
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\+00",         # times
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",        # UUIDs
    r"[A-Za-z0-9_-]{64,}",                               # tokens
    r"\d+(?:\.\d+|beta\d+|rc\d+) \(Debian .*\)",         # the server's version
    r'\{"Retry-After": "(?:30|2\d)", "Content-Type": "application/problem\+json"\}',  # the rest of a lease of half a minute
)]


class Statement:
    def __init__(self, line):
        self.line = line
        self.text = []
        self.table = None    # rows of cells, the first is the header
        self.messages = []   # ERROR, DETAIL, HINT
        self.row = None      # the comment behind it

    def is_complete(self):
        text = "\n".join(self.text)
        if text.count("$$") % 2:  # within the body of a function
            return False
        if self.text[0].startswith("\\if "):  # both branches are one
            return self.text[-1].startswith("\\endif")
        return re.search(r"(;|\\g\w+)\s*$", without_comment(self.text[-1])) is not None


def without_comment(line):
    return re.sub(r"\s*--( .*)?$", "", line)


def comment_of(line):
    found = re.search(r";\s*-- (.*)$", line)
    return found and found[1].strip()


def cells(line):
    return [cell.strip() for cell in line.split("|")]


def blocks(page):
    """The SQL blocks, each a list of (number, line), and the reasons for those that are left out."""
    found, left_out, block, reason, indent = [], [], None, None, ""
    for number, line in enumerate(page.read_text().split("\n"), 1):
        fence = re.match(r"( *)```(\w*)$", line)
        if block is not None:
            if fence:
                (left_out.append(reason) if reason else found.append(block))
                block = reason = None
            else:
                block.append((number, line.removeprefix(indent)))
        elif fence and fence[2] == "sql":
            block, indent = [], fence[1]
        elif (marked := re.match(r" *<!-- not run: (.*) -->$", line)):
            reason = marked[1]
        elif line.strip():
            reason = None
    return found, left_out


def statements(block):
    found, at = [], 0
    while at < len(block):
        number, line = block[at]
        rest = block[at + 1][1] if at + 1 < len(block) else ""
        if re.match(r"(ERROR|DETAIL|HINT):", line):
            found[-1].messages.append(line.rstrip())
        elif line.startswith("NOTICE:"):
            pass
        elif line.startswith("--  "):
            found[-1].row = line[2:].strip()
        elif re.match(r"-+(\+-+)*$", rest.strip()) and line.startswith(" "):
            table = [cells(line)]
            at += 2
            while at < len(block) and block[at][1].startswith(" "):
                table.append(cells(block[at][1]))
                at += 1
            found[-1].table = table
            continue
        elif line.strip() and not line.startswith("--"):
            statement = Statement(number)
            found.append(statement)
            while True:
                statement.text.append(block[at][1])
                if statement.is_complete() or at + 1 == len(block):
                    break
                at += 1
            statement.row = comment_of(statement.text[-1])
            if statement.row and statement.row.startswith("ERROR:"):
                statement.messages, statement.row = [statement.row], None
        at += 1
    return found


class Session:
    """psql, a statement at a time."""

    def __init__(self, *options):
        self.psql = subprocess.Popen(
            ["stdbuf", "-oL", "psql", "-X", "-q", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"PGTZ": "UTC", "PGOPTIONS": "-c client_min_messages=warning"})
        self.run(r"\pset footer off")

    def run(self, text):
        self.psql.stdin.write(f"{text}\n\\echo {MARK}\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.rstrip() == MARK:
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("psql ended: " + " ".join(lines))

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


def tables_in(output):
    """Each table as rows of cells."""
    found = []
    for at, line in enumerate(output):
        if re.match(r"-+(\+-+)*$", line) and at > 0:
            table = [cells(output[at - 1])]
            for row in output[at + 1:]:
                if not row.startswith(" "):
                    break
                table.append(cells(row))
            found.append(table)
    return found


class Page:
    def __init__(self, path):
        self.path = path
        self.real = {}      # what was shown, and what it is in this run
        self.problems = []

    def differ(self, statement, shown, happened):
        text = "\n    ".join(statement.text)
        self.problems.append(f"{self.path.relative_to(ROOT)}:{statement.line}:\n    {text}\n  shown:\n    {shown}\n  happened:\n    {happened}")

    def is_same(self, shown, real):
        if shown == real:
            return True
        for pattern in VARYING:
            if pattern.fullmatch(shown) and pattern.fullmatch(real):
                if self.real.setdefault(shown, real) == real:
                    return True
        return False

    def is_same_row(self, shown, row):
        """Whether the comment shows the row, or its first columns. Behind a colon, a semicolon or a comma it may go on in words."""
        real = [cell or "NULL" for cell in row]
        *told, last = cells(shown)
        ends = [at for at, character in enumerate(last) if character in ":;,"] + [len(last)]
        return len(told) < len(real) and all(self.is_same(a or "NULL", b) for a, b in zip(told, real)) and any(
            self.is_same(last[:end] or "NULL", real[len(told)]) for end in ends)

    def check(self, statement, output, is_aborted):
        tables = tables_in(output)
        messages = [line for line in output if re.match(r"(ERROR|DETAIL|HINT):", line)]
        shown = "\n    ".join(statement.messages) or "no error"
        errors = [line for line in messages if line.startswith("ERROR:")]
        if is_aborted and not statement.messages and errors and all("current transaction is aborted" in line for line in errors):
            return
        if [line for line in statement.messages if line not in messages] or bool(errors) != bool(statement.messages):
            self.differ(statement, shown, "\n    ".join(messages) or "no error")
            return
        if statement.table is not None:
            real = tables[-1] if tables else []
            if len(real) != len(statement.table) or not all(
                    len(a) == len(b) and all(self.is_same(x, y) for x, y in zip(a, b)) for a, b in zip(statement.table, real)):
                self.differ(statement, "\n    ".join(" | ".join(row) for row in statement.table), "\n    ".join(output))
        elif statement.row and tables and len(tables[-1]) == 2 and any(tables[-1][1]):
            if not self.is_same_row(statement.row, tables[-1][1]):
                self.differ(statement, statement.row, " | ".join(tables[-1][1]))
        elif statement.row and tables and len(tables[-1]) == 2 and statement.row.startswith("NULL"):
            pass
        elif statement.row and statement.row.startswith("NULL"):
            self.differ(statement, statement.row, "\n    ".join(output))

    def run(self, session, is_left_out):
        found, self.left_out = blocks(self.path)
        is_aborted = False
        for block in found:
            for statement in statements(block):
                text = "\n".join(statement.text)
                if is_left_out(text):
                    continue
                for shown, real in self.real.items():
                    text = text.replace(shown, real)
                output = session.run(text)
                if text.startswith("ALTER DATABASE"):  # for sessions that begin later
                    session.run(r"\c")
                self.check(statement, output, is_aborted)
                code = without_comment(text).upper()
                is_aborted = (is_aborted or any(line.startswith("ERROR:") for line in output)) and not re.search(r"\b(COMMIT|ROLLBACK)\b", code)


def psql(*options):
    return subprocess.run(["psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", *options], check=True, capture_output=True, text=True).stdout


def roles():
    return set(psql("-d", "postgres", "-c", "SELECT rolname FROM pg_roles").split())


def statements_of(path):
    return "\n".join(line for block in blocks(path)[0] for _, line in block)


def session_with_extension(path):
    psql("-d", "postgres", "-c", "CREATE DATABASE shop")
    session = Session("-d", "shop")
    if "CREATE EXTENSION idem" not in statements_of(path):
        session.run("CREATE SCHEMA idem; CREATE EXTENSION idem SCHEMA idem; SET search_path = public, idem;")
    return session


def session_with_portable(_):
    psql("-d", "postgres", "-c", f"CREATE ROLE {OWNER} LOGIN CREATEROLE", "-c", f"CREATE DATABASE shop OWNER {OWNER} TEMPLATE template0")
    psql("-U", OWNER, "-d", "shop", "-f", PORTABLE)
    session = Session("-U", OWNER, "-d", "shop")
    session.run("SET search_path = public, idem;")
    return session


def run_page(path, begin_session, is_left_out):
    page = Page(path)
    before = roles()
    session = begin_session(path)
    try:
        setup = SETUP / path.relative_to(ROOT / "docs" if path.parent != ROOT else ROOT).with_name(f"{path.stem.lower()}.sql")
        if setup.exists():
            failed = [line for line in session.run(f"\\i {setup}") if "ERROR:" in line]
            page.problems += [f"{setup.relative_to(ROOT)}: {line}" for line in failed]
        page.run(session, is_left_out)
    finally:
        session.close()
        psql("-d", "postgres", "-c", "DROP DATABASE shop")
        for role in roles() - before:
            psql("-d", "postgres", "-c", f"DROP ROLE {role}")
    return page


def exceptions(path):
    """The statements of the page that tests/portable/exceptions names, with its reasons."""
    found = subprocess.run([ROOT / "tests/portable/reason", path.relative_to(ROOT)], check=True, capture_output=True, text=True).stdout
    return dict(line.split("\t") for line in found.splitlines())


def main():
    portable = "--portable" in sys.argv
    paths = [ROOT / name for name in sys.argv[1:] if name != "--portable"] or [
        ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md")),
        ROOT / "docs/zh/quickstart.md"]
    paths = [path for path in paths if any(blocks(path))]
    print(f"1..{len(paths)}", flush=True)
    failed = False
    for number, path in enumerate(paths, 1):
        left_out = exceptions(path) if portable else {}
        if "*" in left_out:
            print(f"ok {number} - {path.relative_to(ROOT)} # SKIP {left_out['*']}", flush=True)
            continue
        page = (run_page(path, session_with_portable, lambda text: re.match("CREATE (SCHEMA|EXTENSION) idem", text) or without_comment(text) in left_out)
                if portable else run_page(path, session_with_extension, lambda text: False))
        failed |= bool(page.problems)
        for problem in page.problems:
            print("\n".join(f"# {line}" for line in problem.split("\n")))
        print(f"{'not ok' if page.problems else 'ok'} {number} - {path.relative_to(ROOT)}", flush=True)
        for reason in page.left_out:
            print(f"# not run: {reason}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
