#!/usr/bin/env python3
"""Prepares the pages for mkdocs, and checks what it made of them. scripts/docs-site.sh runs both.

    site.py stage DIRECTORY    copies the pages there, with everything they link to, in the order of the repository
    site.py index DIRECTORY    takes the pages that only show a file out of the index of the search
    site.py check DIRECTORY    each link of each HTML page leads to a file of the site, and to an anchor of it

GitHub's Markdown is not mkdocs's. The copies differ from the pages in four ways: a list begins after an empty line and its contents are indented by
four columns; a link to a file of the sources leads to a page that shows the file; the note in the first line of Chinese pages is gone. The plots of
bench/plots.sh are drawn, and a page shows each where it has `<!-- plot NAME: TEXT -->`.
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages of the repository that are no part of the site.
LEFT_OUT = re.compile(r"^(\.github|tests|debian)/")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".sql": "sql", ".py": "python", ".js": "js", ".ts": "ts", ".java": "java", ".sh": "bash", ".go": "go", ".yaml": "yaml",
             ".json": "json", ".conf": "nginx", ".rs": "rust", ".rb": "ruby", ".php": "php", ".cs": "csharp", ".xml": "xml", ".toml": "toml"}
PICTURES = {".svg", ".png"}
PLOT = re.compile(r"^<!-- plot ([\w-]+): (.*) -->$", re.MULTILINE)
LINK = re.compile(r"(?<!\\)(\]\()([^)\s]+)(\))")
ITEM = re.compile(r"( *)([-*+]|\d+[.)])( +)(?=\S)")
FENCE = re.compile(r" *(```+|~~~+)")


def tracked(*patterns):
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


def is_text(path):
    return b"\0" not in path.read_bytes()


def reindent(text):
    """Lists as Python-Markdown reads them."""
    lists = []  # the columns at which the contents of the open items begin
    fence, before, made = "", "", []  # what ends the open block; the line above, if the paragraph goes on
    was_item = was_in_list = False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        mark = FENCE.match(line)
        if fence:
            lead = min(indent, lists[-1] if lists else 0)
            made.append(" " * 4 * len(lists) + line[lead:] if line.strip() else "")
            if mark and mark.group(1).startswith(fence):
                fence = ""
                made.append("")
            before = ""
            continue
        if not line.strip():
            made.append("")
            before = ""
            continue
        item = ITEM.match(line)
        # A line without an indent goes on with the paragraph above it, unless that ended.
        if item or not before or mark:
            while lists and indent < lists[-1]:
                lists.pop()
        lead = " " * 4 * len(lists)
        if item and indent < (lists[-1] if lists else 0) + 4:
            if before and not was_item and not (lists and was_in_list):
                made.append("")
            made.append(lead + item.group(2) + " " + line[item.end():])
            lists.append(item.end())
            was_item = was_in_list = True
        else:
            if mark:
                fence = mark.group(1)
                if before:
                    made.append("")
            made.append(lead + line[min(indent, lists[-1] if lists else 0):])
            was_item, was_in_list = False, bool(lists)
        before = "" if mark else line
    return "\n".join(made)


def outside_code(text, change):
    """change() for what is neither in a block of code nor between backquotes."""
    parts = re.split(r"(^ *```.*?^ *```[^\n]*$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    # A link may have code for its text: put a mark in the place of each piece of code, and the code back afterwards.
    marked = "".join(part if number % 2 == 0 else f"\0{number}\0" for number, part in enumerate(parts))
    return re.sub("\0(\\d+)\0", lambda match: parts[int(match[1])], change(marked))


class Stage:
    def __init__(self, target):
        self.target = target
        self.pages = [name for name in tracked("*.md") if not LEFT_OUT.match(name)]
        self.sources = set()

    def write(self, name, text):
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, page, target):
        path, mark, fragment = target.partition("#")
        if not path or re.match(r"\w+:", target):
            return target
        name = os.path.normpath(os.path.join(os.path.dirname(page), path))
        # A target that does not exist is for check() to find.
        if name in self.pages or pathlib.Path(name).suffix in PICTURES or not (ROOT / name).exists():
            return target
        if f"{name}/README.md" in self.pages:
            return f"{path.rstrip('/')}/README.md{mark}{fragment}"
        self.sources.add(name)
        return f"{path.rstrip('/')}{'/index.md' if (ROOT / name).is_dir() else '.md'}"

    def show(self, name):
        """A page that shows a file, or lists a directory."""
        path = ROOT / name
        if path.is_dir():
            files = [file for file in tracked(f"{name}/*") if os.path.dirname(file) == name and is_text(ROOT / file)]
            files += [page for page in self.pages if os.path.dirname(os.path.dirname(page)) == name]
            self.sources.update(file for file in files if file not in self.pages)
            links = {os.path.relpath(file, name): "" if file in self.pages else ".md" for file in sorted(files)}
            self.write(f"{name}/index.md", f"# {name}\n\n" + "\n".join(f"- [{link}]({link}{suffix})" for link, suffix in links.items()) + "\n")
        else:
            fence = "`" * 6
            language = LANGUAGES.get(path.suffix, "text")
            self.write(f"{name}.md", f"# {name}\n\n{fence}{language}\n{path.read_text().rstrip()}\n{fence}\n")

    def left_out(self):
        """Pages that the navigation does not name."""
        named = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
        return [page for page in self.pages if page not in named]

    def run(self):
        shutil.rmtree(self.target, ignore_errors=True)
        for page in self.pages:
            text = re.sub(r"\A<!-- en: .* -->\n", "", (ROOT / page).read_text())
            plots = os.path.relpath("docs/plots", os.path.dirname(page))
            text = PLOT.sub(lambda match: f"![{match[2]}]({plots}/{match[1]}.svg)", text)
            text = outside_code(text, lambda part: LINK.sub(lambda match: match[1] + self.link(page, match[2]) + match[3], part))
            self.write(page, reindent(text))
        for picture in tracked("docs/*.svg", "docs/*.png"):
            (self.target / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / picture, self.target / picture)
        subprocess.run([ROOT / "bench/plots.sh", self.target / "docs/plots"], check=True)
        shown = set()
        while self.sources - shown:
            for name in sorted(self.sources - shown):
                self.show(name)
                shown.add(name)


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def check(site):
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    faults, links = [], 0
    for path, page in pages.items():
        for link in sorted(page.links):
            where = urllib.parse.urlsplit(link)
            if where.scheme or where.netloc:
                continue
            links += 1
            target = (path.parent / urllib.parse.unquote(where.path)).resolve() if where.path else path
            if target.is_dir():
                target /= "index.html"
            fragment = urllib.parse.unquote(where.fragment)
            if not target.is_relative_to(site) or not target.exists():
                faults.append(f"{path.relative_to(site)}: {link}: there is no such file")
            elif fragment and target in pages and fragment not in pages[target].anchors and fragment != "__skip":
                faults.append(f"{path.relative_to(site)}: {link}: there is no such anchor")
    print(f"{len(pages)} pages, {links} links within the site")
    return faults


def index(site):
    """Code would be most of what a search finds."""
    path = site / "search/search_index.json"
    made = json.loads(path.read_text())
    pages = {name.removesuffix(".md") for name in tracked("*.md")}
    pages |= {re.sub(r"README$", "index", name) for name in pages}
    made["docs"] = [entry for entry in made["docs"] if re.sub(r"\.html(#.*)?$", "", entry["location"]) in pages]
    path.write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")))
    print(f"{len(made['docs'])} sections in the index of the search")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("stage", "index", "check"):
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "stage":
        stage = Stage(directory)
        stage.run()
        if names := stage.left_out():
            sys.exit(f"mkdocs.yml does not name {', '.join(names)}")
    elif sys.argv[1] == "index":
        index(directory)
    elif faults := check(directory):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
