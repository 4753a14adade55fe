#!/usr/bin/env python3
"""Compares the Chinese pages (README.zh.md, docs/zh/*.md) with the English ones.

    zh.py [PAGE ...]           compares these pages, or all; prints PAGE:LINE: what is wrong
    zh.py --behind [PAGE ...]  the pages whose English page changed in git since they were last written, with the commits to read; always succeeds

The first line of a page names the English ones, such as `<!-- en: README.md docs/http.md -->`. Each code block is a block of them. With `(all blocks)` behind the
names the page has every block of them, in the same order. Blocks are equal byte for byte, but for the indentation of the whole block: it may stand in a list in
one language alone.

The facts of prose are its numbers, SQLSTATEs, functions, columns and settings. Each one is on an English page that the page names or links to. With `(all rows)`
the tables have the same rows in the same order: a row and its English one have the same facts and the same code. Only a reader of both languages can compare what
the words say. tests/tree/pages.bats follows the links of all languages.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIRST_LINE = re.compile(r"<!-- en: ((?:\S+\.md )+)(\(all blocks\) )?(\(all rows\) )?-->")
BLOCK = re.compile(r"^( *)```[^`\n]*\n.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)[^)]*\)")
NAME = re.compile(r"\bidem\.\w+|\b[a-z]+(?:_[a-z]+)+\b|\b(?=[A-Z]*\d)[A-Z\d]{5}\b", re.ASCII)
NUMBER = re.compile(r"(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?)(?!\w)(?: ?(万|亿|thousand|million|billion))?", re.ASCII)
SCALE = {"": 1, "万": 10**4, "亿": 10**8, "thousand": 10**3, "million": 10**6, "billion": 10**9}


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def blocks(path):
    """(line, text) of each fenced block, without the indentation of its fence."""
    page = path.read_text()
    return [(page.count("\n", 0, found.start()) + 1, re.sub(f"^ {{1,{len(found[1])}}}", "", found[0], flags=re.MULTILINE) if found[1] else found[0])
            for found in BLOCK.finditer(page)]


def prose(path):
    """The text without blocks and without targets of links; lines keep their numbers."""
    return LINK.sub("]", BLOCK.sub(lambda found: "\n" * found[0].count("\n"), path.read_text()))


def facts(text):
    return set(NAME.findall(text)) | {f"{float(digits.replace(',', '')) * SCALE[scale]:g}" for digits, scale in NUMBER.findall(text)}


def rows(path):
    """(line, facts and code) of each row of a table that has any."""
    found = [(line, ", ".join(sorted(facts(text) | set(re.findall("`[^`]+`", text)))))
             for line, text in enumerate(prose(path).splitlines(), 1) if text.startswith("|")]
    return [row for row in found if row[1]]


def linked(page):
    """The English pages that the page links to."""
    targets = {(page.parent / found[1]).resolve() for found in LINK.finditer(page.read_text()) if found[1].endswith(".md")}
    return [target for target in targets if target.is_file() and ".zh." not in target.name and target.parent.name != "zh"]


def english_of(page):
    """The English pages that the page names, and whether it has all their blocks, and all their rows."""
    first_line = FIRST_LINE.fullmatch(page.read_text().partition("\n")[0])
    if not first_line:
        raise ValueError("the first line does not name the English page: <!-- en: docs/… -->")
    missing = [name for name in first_line[1].split() if not (ROOT / name).is_file()]
    if missing:
        raise ValueError(f"there is no {missing[0]}")
    return first_line[1].split(), bool(first_line[2]), bool(first_line[3])


def differences(what, parts, page, names, has_all):
    """parts(path) has the (line, text) of each block, or of each row."""
    own = parts(page)
    english = [(name, line, text) for name in names for line, text in parts(ROOT / name)]
    known = {text for _, _, text in english}
    found = [(line, f"this {what} is not in {' or '.join(names)}") for line, text in own if text not in known]
    if has_all and not found and [text for _, text in own] != [text for _, _, text in english]:
        present = {text for _, text in own}
        lacking = [f"the {what} of {name}:{line} is missing" for name, line, text in english if text not in present]
        found += [(1, text) for text in lacking or [f"the {what}s are not in the order of {', '.join(names)}"]]
    return found


def unknown_facts(page, names):
    known = facts("\n".join(path.read_text() for path in [*(ROOT / name for name in names), *linked(page)]))
    return [(line, f"{fact} is on no English page that this one names or links to")
            for line, text in enumerate(prose(page).splitlines(), 1) for fact in sorted(facts(text) - known)]


def faults(page):
    try:
        names, has_all_blocks, has_all_rows = english_of(page)
    except ValueError as error:
        return [(1, str(error))]
    return [*differences("block", blocks, page, names, has_all_blocks),
            *(differences("row", rows, page, names, True) if has_all_rows else []),
            *unknown_facts(page, names)]


def behind(page):
    """A line for each English page that has commits which the last commit of the Chinese page does not have."""
    written = git("log", "-1", "--format=%H", "--", page)
    found = []
    for name in english_of(page)[0] if written else []:
        commits = git("log", "--format=%h %cs %s", f"{written}..HEAD", "--", name).splitlines()
        if commits:
            found.append("\n    ".join([f"{page.relative_to(ROOT)}: {name} changed later", *commits]))
    return found


def main():
    if {"--help", "-h"} & set(sys.argv):
        print(__doc__)
        return 0
    pages = [pathlib.Path(name).resolve() for name in sys.argv[1:] if name != "--behind"] or [
        ROOT / "README.zh.md", *sorted((ROOT / "docs/zh").glob("*.md"))]
    if "--behind" in sys.argv:
        for page in pages:
            print("".join(f"{line}\n" for line in behind(page)), end="")
        return 0
    found = [f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}:{line}: {text}" for page in pages for line, text in faults(page)]
    print("".join(f"{line}\n" for line in found), end="")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
