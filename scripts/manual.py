#!/usr/bin/env python3
"""Prints the man page idem(7): functions, settings and errors, from docs/functions.md, docs/settings.md and docs/errors.md."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHARACTERS = {"→": r"\(->", "–": r"\(en", "…": "...", "×": r"\(mu", "≤": r"\(<=", "≥": r"\(>="}


def plain(text, dash="-"):
    text = text.replace("\\|", "|").replace("\\", r"\e").replace("-", dash)
    for character, escape in CHARACTERS.items():
        text = text.replace(character, escape)
    if not text.isascii():
        sys.exit(f"manual.py: no escape for a character of: {text}")
    return text


def troff(text):
    """A line of Markdown."""
    text = re.sub(r"\[((?:`[^`]*`|[^]`])*)\]\([^)]*\)", r"\1", text.strip())
    parts = re.split(r"`([^`]*)`", text)
    made = "".join(rf"\fB{plain(part, dash=chr(92) + '-')}\fR" if number % 2 else re.sub(r"\*\*?([^*]+)\*\*?", r"\\fI\1\\fR", plain(part))
                   for number, part in enumerate(parts))
    return re.sub(r"^(?=[.'])", r"\\&", made)


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables(page):
    """Each heading of the second level, with the rows of its table."""
    found = []
    for part in re.split(r"^## ", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        lines = [line for line in body.split("\n") if line.startswith("|")]
        if lines:
            found.append((heading, [cells(line) for line in lines[2:]]))
    return found


def item(term, text):
    return f".TP\n.B {troff(term).replace(chr(92) + 'fB', '').replace(chr(92) + 'fR', '')}\n{text}"


def sentence(text):
    return text if re.search(r"[.!?]$", text) else text + "."


def main():
    version = re.search(r"^default_version *= *'(.*)'", (ROOT / "extension/idem.control").read_text(), re.MULTILINE)[1]
    text = [
        f'.TH IDEM 7 "" "idem {version}" "idem"',
        ".SH NAME", r"idem \- SQL functions, settings and errors of the PostgreSQL extension idem",
        ".SH DESCRIPTION",
        "idem makes work happen exactly once with PostgreSQL: the guard and the rows of the application commit, or roll back, together.",
        "This page lists what a session can call, set and meet. A parameter is written", r"\fIname type = default\fR;",
        r"named notation is \fBname => value\fR. In psql, \fB\edf+ idem_*\fR shows the whole comment of each function.",
        ".PP", "The word after each entry says which roles may call the function: everybody; applications, by", r"\fBidem_grant(role)\fR;",
        r"operators, by \fBidem_grant(role, operator => true)\fR; the owner of the extension.",
        ".SH FUNCTIONS AND VIEWS",
    ]
    for heading, rows in tables("functions.md"):
        text.append(f'.SS "{plain(heading)}"')
        text += [item(signature, f"{troff(sentence(what))} ({plain(audience)})") for signature, what, audience in rows]
    text.append(".SH SETTINGS")
    for _, rows in tables("settings.md"):
        text += [item(name, f"{troff(sentence(what))}\nDefault: {troff(default)}; values: {troff(values)}; changed by: {troff(changed)}.")
                 for name, default, values, changed, what in rows]
    text.append(".SH ERRORS")
    text.append("An outcome such as in_flight or conflict is a result and no error. Other errors are those of the statements of the application, unchanged.")
    for heading, rows in tables("errors.md"):
        text.append(f'.SS "{plain(heading)}"')
        for code, when, remedy, *retry in rows:
            lines = [troff(sentence(when))] + [f"Remedy: {troff(sentence(remedy))}"] * (remedy != "–") + [f"Retry: {troff(sentence(answer))}" for answer in retry]
            text.append(item(code, "\n".join(lines)))
    text += [".SH SEE ALSO", ".BR idem (1),", ".BR psql (1)", ".PP", "The package idem\\-doc has a page for each group of functions, with examples."]
    print("\n".join(text))


if __name__ == "__main__":
    main()
