#!/usr/bin/env python3
"""Makes pages of the reference from the catalog of a database that has idem.

    reference.py functions    docs/functions.md, to stdout
    reference.py settings     docs/settings.md, to stdout
    reference.py --write      both, into docs/
    reference.py --check      compares both with docs/; prints TAP

libpq's environment names the server. The script makes a database of its own there, with the C edition in it, and drops it again.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATABASE = f"idem_reference_{os.getpid()}"

# In the order of docs/architecture.md, from what most readers look for to what few do.
ROOMS = {
    "keys": ("Keys", "keys.md"), "http": ("HTTP", "http.md"), "tokens": ("Tokens", "tokens.md"), "ids": ("Numbers", "ids.md"),
    "locks": ("Lease locks", "locks.md"), "rows": ("Rows", "rows.md"), "machines": ("State machines", "machines.md"),
    "outbox": ("Outbox and inbox", "outbox.md"), "requests": ("Requests, webhooks, rate limits", "requests.md"),
    "scopes": ("Scopes", "scopes.md"), "rings": ("Rings", "rings.md"), "statistics": ("Statistics", "monitoring.md"),
    "operations": ("Operations", "operations.md"), "storage": ("Storage", "operations.md"),
}
# Where a heading of a page does not have the name itself.
PLACES = {
    "idem_grant": "scopes.md#privileges", "idem_revoke": "scopes.md#privileges", "idem_sweep": "operations.md#sweeping",
    "idem_sweep_progress": "operations.md#how-far-is-it", "idem_version": "operations.md#upgrading",
    "idem_replicated_tables": "operations.md#logical-replication", "idem_guards": "machines.md#is-the-guard-there",
    "idem_scope_set": "scopes.md#scopes", "idem_scope_reset": "scopes.md#scopes", "idem_scope_drop": "scopes.md#scopes",
    "idem_scope_settings": "scopes.md#scopes", "idem_scope_sizes": "operations.md#how-large-is-each-scope",
    "idem_api_key_set": "requests.md#keys", "idem_api_key_drop": "requests.md#keys", "idem_request_message": "requests.md#what-is-signed",
    "idem_webhook_source_set": "webhooks.md#sources", "idem_webhook_source_drop": "webhooks.md#sources",
    "idem_outbox_retry": "outbox.md#dead-letters", "idem_outbox_discard": "outbox.md#dead-letters", "idem_dead_letters": "outbox.md#dead-letters",
    "idem_fingerprint_text": "keys.md#idem_key-idem_fingerprint", "idem_fingerprint_bytes": "keys.md#idem_key-idem_fingerprint", "idem_hits": "keys.md#idem_hit",
    "idem_in_flight": "monitoring.md#idem_in_flight", "idem_health": "monitoring.md#idem_health", "idem_stats": "monitoring.md#idem_stats",
    "idem_consume": "outbox.md#inbox", "idem_stats_reset": "monitoring.md#idem_stats", "idem_rings": "rings.md#watching",
    "idem_ring_create": "rings.md#reference", "idem_ring_drop": "rings.md#reference", "idem_ring_rebuild_filter": "rings.md#reference",
}
SETTINGS = {
    "idem.databases": "operations.md#background-worker", "idem.default_lease": "leases.md", "idem.default_ttl": "keys.md", "idem.max_lease": "leases.md",
    "idem.max_response_size": "keys.md#idem_complete", "idem.node_id": "ids.md#idem_next_id", "idem.outbox_max_attempts": "outbox.md#dead-letters",
    "idem.outbox_notify": "outbox.md#what-notify-costs", "idem.require_registered_scope": "scopes.md#scopes", "idem.stats_max_scopes": "monitoring.md#idem_stats",
    "idem.index_descent": "operations.md#settings",
    "idem.sweep_interval": "operations.md#background-worker", "idem.sweep_pause": "operations.md#background-worker",
    "idem.sweep_start_delay": "operations.md#after-a-downtime", "idem.sweep_workers": "operations.md#background-worker", "idem.track_stats": "monitoring.md#idem_stats",
}
AUDIENCES = {"public": "everybody", "application": "applications", "operator": "operators", "owner": "the owner"}

FUNCTIONS = """
SELECT proname AS name, audience, pg_get_function_arguments(p.oid) AS arguments, prokind = 'p' AS is_procedure,
       CASE WHEN prokind = 'f' THEN pg_get_function_result(p.oid) END AS result, obj_description(p.oid, 'pg_proc') AS comment
  FROM idem_members() m JOIN pg_proc p ON m.kind = 'ROUTINE' AND p.oid = m.objid
 WHERE prorettype <> 'trigger'::regtype AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Internal%'
 ORDER BY proname COLLATE "C", pronargs, p.oid::regprocedure::text COLLATE "C"
"""
VIEWS = """
SELECT relname AS name, audience, obj_description(c.oid, 'pg_class') AS comment
  FROM idem_members() m JOIN pg_class c ON m.kind = 'TABLE' AND c.oid = m.objid
 WHERE relkind = 'v' AND obj_description(c.oid, 'pg_class') NOT LIKE 'Internal%'
 ORDER BY relname COLLATE "C"
"""
PARAMETERS = """
SELECT name, current_setting(name) AS shown, context, short_desc, extra_desc, vartype, min_val, max_val, unit
  FROM pg_settings WHERE name LIKE 'idem.%' ORDER BY name COLLATE "C"
"""


def psql(database, statement):
    run = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return run.stdout


@contextlib.contextmanager
def database():
    maintenance = os.environ.get("PGDATABASE", "postgres")
    psql(maintenance, f"CREATE DATABASE {DATABASE} TEMPLATE template0")
    try:
        psql(DATABASE, f"CREATE EXTENSION idem; ALTER DATABASE {DATABASE} SET search_path = public")
        yield DATABASE
    finally:
        psql(maintenance, f"DROP DATABASE {DATABASE}")


def rows(of, query):
    query = f"WITH idem_loaded AS MATERIALIZED (SELECT idem_uuid_v7()) SELECT coalesce(json_agg(q), '[]') FROM idem_loaded, ({query}) q"
    return json.loads(psql(of, query))


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def places():
    """Function names in headings of the pages, and where that is."""
    found = dict(PLACES)
    for room in ROOMS:
        page = ROOT / "docs" / ROOMS[room][1]
        for page in (page, ROOT / "docs/webhooks.md", ROOT / "docs/monitoring.md"):
            for heading in re.findall(r"^##+ (.*)$", page.read_text(), re.MULTILINE):
                for name in re.findall(r"\w+", heading):
                    if "_" in name:
                        found.setdefault(name, f"{page.name}#{anchor(heading)}")
    return found


def room_of(name):
    for path in sorted((ROOT / "sql").glob("*/*.sql")):
        if path.parent.name in ROOMS and re.search(rf"^CREATE (FUNCTION|PROCEDURE|VIEW) {name}\b", path.read_text(), re.MULTILINE):
            return path.parent.name
    sys.exit(f"no file of sql/ creates {name}")


def signature(function):
    """As docs/contract.md writes it."""
    arguments = re.sub(r" DEFAULT ('[^']*'|\S+?)(::[\w ]+(\[\])?)?(?=,|$)", r" = \1", function["arguments"])
    arguments = re.sub(r"\bIN ", "", arguments)
    result = function["result"]
    if columns := re.findall(r"\bOUT ([^,]+)", arguments):
        arguments = re.sub(r"(, )?\bOUT [^,]+", "", arguments)
        result = ("SETOF " if result.startswith("SETOF") else "") + f"({', '.join(columns)})"
    text = f"{function['name']}({arguments})" + (f" → {result}" if result not in (None, "void") else "")
    for long, short in (("timestamp with time zone", "timestamptz"), ("double precision", "float8"), ("'00:00:00'", "'0'"), ("'00:30:00'", "'30 min'"),
                        ("'00:05:00'", "'5 min'"), ("'00:00:30'", "'30 s'"), (" integer", " int")):
        text = text.replace(long, short)
    return text


def sentence(comment):
    """The first one of a comment."""
    return re.split(r"(?<=[^.]\.)\s+", comment.split("\n")[0])[0]


def functions(of):
    where = places()
    text = [
        "# Functions", "",
        "Every function, procedure and view of the C edition that is not internal, with the first sentence of its comment; `\\df+ idem_*` shows the whole comment. The",
        "last column says which roles may call it ([privileges](scopes.md#privileges)). The portable edition has the same, but for what",
        "[its page](portable.md#differences) lists. What a result means is in [the index of outcomes](contract.md#12-index-of-outcomes), errors",
        "are in [errors.md](errors.md), settings in [settings.md](settings.md).", "",
        "`scripts/reference.py --write` makes this page from the catalog.",
    ]
    by_room = {}
    for function in rows(of, FUNCTIONS) + rows(of, VIEWS):
        by_room.setdefault(room_of(function["name"]), []).append(function)
    for room, (title, page) in ROOMS.items():
        if room not in by_room:
            continue
        text += ["", f"## {title}", "", f"[{page}]({page})", "", "| | | for |", "|---|---|---|"]
        for function in by_room[room]:
            name = function["name"]
            code = signature(function) if "arguments" in function else f"view {name}"
            if function.get("is_procedure"):
                code = "CALL " + code
            place = where.get(name, page)
            text.append(f"| [`{code}`]({place}) | {sentence(function['comment'])} | {AUDIENCES[function['audience']]} |")
    return "\n".join(text) + "\n"


def changed_by(setting):
    # Unless the library is preloaded, the server lets a reload change it, which has no effect.
    context = "postmaster" if setting["name"] == "idem.stats_max_scopes" else setting["context"]
    return {"user": "everybody, `SET`", "superuser": "superusers, `SET`", "sighup": "reload", "postmaster": "restart"}[context]


def settings(of):
    text = [
        "# Settings", "",
        "All settings of idem. A setting that everybody may `SET` is a default, and no limit; [scopes](scopes.md#settings) says which policies hold for every call.",
        "`idem.databases`, `idem.stats_max_scopes`, `idem.track_stats` and `idem.sweep_*` but `idem.sweep_start_delay` have an effect only with",
        "`shared_preload_libraries = 'idem'`. PostgreSQL's own settings that matter are in [operations.md](operations.md#settings).", "",
        "`scripts/reference.py --write` makes this page from `pg_settings`.", "",
        "| setting | default | values | changed by | what it does |", "|---|---|---|---|---|",
    ]
    for setting in rows(of, PARAMETERS):
        unit = {"s": " s", "ms": " ms", "B": " bytes"}.get(setting["unit"], "")
        values = {"bool": "on, off", "string": "a list of names", "integer": f"{setting['min_val']} to {setting['max_val']}{unit}"}[setting["vartype"]]
        what = " ".join(filter(None, (setting["short_desc"], setting["extra_desc"])))
        text.append(f"| [`{setting['name']}`]({SETTINGS[setting['name']]}) | {'`' + setting['shown'] + '`' if setting['shown'] else 'empty'} | {values} | "
                    f"{changed_by(setting)} | {what} |")
    return "\n".join(text) + "\n"


PAGES = {"functions": functions, "settings": settings}


def main():
    argument = sys.argv[1] if len(sys.argv) == 2 else ""
    if argument not in (*PAGES, "--write", "--check"):
        sys.exit(__doc__)
    with database() as of:
        made = {name: make(of) for name, make in PAGES.items() if argument in (name, "--write", "--check")}
    failed = False
    for number, (name, text) in enumerate(made.items(), 1):
        page = ROOT / "docs" / f"{name}.md"
        if argument == "--write":
            page.write_text(text)
        elif argument == "--check":
            is_same = page.exists() and page.read_text() == text
            failed |= not is_same
            print(f"{'ok' if is_same else 'not ok'} {number} - docs/{name}.md is what scripts/reference.py makes of the catalog", flush=True)
            if not is_same:
                shown = subprocess.run(["diff", page, "-"], input=text, capture_output=True, text=True).stdout
                print("".join(f"# {line}\n" for line in shown.split("\n")))
        else:
            print(text, end="")
    if argument == "--check":
        print(f"1..{len(made)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
