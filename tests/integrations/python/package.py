"""The wheel in an empty project, the example at the top of the README as printed, and what the README says."""

import ast
import builtins
import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import textwrap
import zipfile

import psycopg
from http_client import send
from installs import installs
from server import HERE, Server
from tap import check, same

ROOT = os.path.normpath(os.path.join(HERE, "../../.."))
SOURCE = os.path.join(ROOT, "integrations/python")
# What a reader of a snippet has: an application, its models, and the objects that the text above the snippet names.
READERS = {"Account", "Order", "Payment", "Stock", "app", "card", "connection", "dsn", "gateway", "pages", "pool", "run", "scope", "write"}
# Packages that the suites of their own install.
OTHER_SUITES = {"mcp", "celery", "django"}


async def run(direct, logs):
    built = subprocess.run([os.path.join(ROOT, "scripts/integrations.sh"), "python"], check=True, capture_output=True, text=True).stdout.strip()
    work = os.path.join(ROOT, "build/integrations/python/package")
    shutil.rmtree(work, ignore_errors=True)
    os.mkdir(work)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def command(*words):
        subprocess.run(words, check=True, cwd=work, env=environment, stdout=subprocess.DEVNULL)

    command("/usr/bin/python3", "-m", "venv", "--system-site-packages", "venv")
    command("venv/bin/pip", "install", "--quiet", "--no-deps", "--no-index", built)

    readme = open(f"{SOURCE}/README.md").read()
    block = re.match(r"```python\n(.*?)```\n", readme, re.DOTALL)
    check("package: the README begins with example.py", block and block[1] == open(f"{SOURCE}/example.py").read(), readme[:500])
    check("package: the README installs the wheel that is built", os.path.relpath(built, ROOT) in readme, built)
    with zipfile.ZipFile(built) as wheel:
        names = [name.rpartition("/")[2] for name in wheel.namelist()]
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    check("package: the wheel has a license and types", {"LICENSE", "py.typed"} <= set(names), names)
    check("package: and what a registry shows", all(f"\n{field}: " in metadata for field in ("Summary", "License", "Keywords", "Requires-Python")), metadata[:2000])
    links = re.findall(r"\]\((?!https?:|#)([^)]*)\)", readme)
    same("package: no link of the README is dead outside of the repository", links, [])
    os.mkdir(f"{work}/project")
    with open(f"{work}/project/example.py", "w") as file:
        file.write(block[1])
    with psycopg.connect(direct, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id serial PRIMARY KEY, item text)")
    await serve_example(work, logs, readme)
    with psycopg.connect(direct) as db:
        same("package: one row", db.execute("SELECT count(*)::int FROM orders").fetchone(), (1,))
    await lifespans(f"{work}/project/example.py")
    await documents()
    snippets(readme)
    await gateway_keys(readme)
    check_types(environment, readme)
    installs(work, environment)


async def serve_example(work, logs, readme):
    log = f"{logs}/package.log"
    if os.path.exists(log):
        os.remove(log)
    server = Server([f"{work}/venv/bin/python", "-m", "uvicorn", "--app-dir", f"{work}/project", "example:app", "--port", "{port}"], {"PYTHONPATH": ""}, log).start()
    try:
        transcript(readme, server.port)
        headers = [("Idempotency-Key", '"8e03978e"')]
        strangers = [await send(server.port, "POST", "/orders?item=apples", headers + more) for more in ([], [("X-API-Key", "a guess")])]
        same("package: an API key that is missing or unknown", [(a.status, a.headers["content-type"]) for a in strangers], [(401, "application/problem+json")] * 2)
        check("package: and no traceback", "Traceback" not in open(log).read(), open(log).read()[-2000:])
        operation = json.loads((await send(server.port, "GET", "/openapi.json")).body)["paths"]["/orders"]["post"]
        same("package: its OpenAPI document requires the header", required_keys(operation), [True])
        same("package: and has the answers", sorted(operation["responses"]), ["201", "400", "409", "422"])
        check("package: they are problems", "application/problem+json" in operation["responses"]["422"]["content"], operation["responses"])
    finally:
        server.stop()


def transcript(readme, port):
    """Runs the commands of the README, and compares the lines that it shows."""
    block = re.search(r"```console\n(.*?)```\n", readme, re.DOTALL)
    text = block[1].replace("localhost:8000", f"127.0.0.1:{port}") if block else ""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    same("package: the README shows two requests", len(parts), 2)
    for number, part in enumerate(parts, 1):
        command, _, shown = part.partition("\n")
        printed = subprocess.run(["bash", "-c", command], capture_output=True, text=True).stdout.replace("\r", "").split("\n")
        expected = shown.strip().split("\n")
        same(f"package: request {number} of the README", [line for line in printed if line in expected], expected)


def required_keys(operation):
    return [parameter["required"] for parameter in operation["parameters"] if parameter["name"].lower() == "idempotency-key"]


async def lifespans(path):
    """The example opens its pool, and closes it when the server ends."""
    spec = importlib.util.spec_from_file_location("example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    seen = [example.pool.closed]
    messages = iter(("lifespan.startup", "lifespan.shutdown"))

    async def receive():
        return {"type": next(messages)}

    async def send(message):
        seen.append((message["type"], example.pool.closed))

    await example.app({"type": "lifespan"}, receive, send)
    same("package: the example opens its pool and closes it", seen, [True, ("lifespan.startup.complete", False), ("lifespan.shutdown.complete", True)])


async def documents():
    """What the OpenAPI document says of the header, with other options and methods."""
    from fastapi import Depends, FastAPI
    from idem_postgres.fastapi import IdemMiddleware, idempotent

    async def required(**options):
        app = FastAPI()
        app.add_middleware(IdemMiddleware, pool=lambda: psycopg.connect(""), scope=lambda request: "x", **options)
        for method in ("post", "patch", "put"):
            getattr(app, method)("/x")(lambda run=Depends(idempotent): None)
        parts = []

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message):
            parts.append(message.get("body", b""))

        await app({"type": "http", "method": "GET", "path": "/openapi.json", "query_string": b"", "headers": [], "root_path": ""}, receive, send)
        operations = json.loads(b"".join(parts))["paths"]["/x"]
        return [required_keys(operations[method]) for method in ("post", "patch", "put")]

    same("package: POST and PATCH require the header", await required(), [[True], [True], [False]])
    same("package: unless no key is required", await required(key_required=False), [[False]] * 3)
    same("package: or the middleware does not act without one", await required(methods={"PATCH"}), [[False], [True], [False]])


def snippets(readme):
    """Each block of Python has the imports that it needs, and what it imports is there."""
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)):
        tree = ast.parse(block.replace("…", "..."))
        nodes = list(ast.walk(tree))
        imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        bound = {alias.name for node in imports for alias in node.names} | {node.arg for node in nodes if isinstance(node, ast.arg)}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)} | {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        missing = {node.id for node in names} - bound - READERS - set(dir(builtins))
        same(f"package: block {number} of the README has its imports", sorted(missing), [])
        for node in imports:
            try:
                exec(compile(ast.Module([node], []), "README.md", "exec"), {})
            except ModuleNotFoundError as error:
                if error.name not in OTHER_SUITES:
                    raise


async def gateway_keys(readme):
    """The block that charges a card: two clients may send the same key."""
    from idem_postgres.http.serve import serve
    from idem_postgres.http.options import Settings
    from idem_postgres.http.request import Keyed
    from idem_postgres.http.response import Response
    from idem_postgres.pool import Pool

    (block,) = [block for block in re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE) if "gateway.charge" in block]
    namespace = {}
    exec("async def work(run, gateway, card):\n" + textwrap.indent(block, "    "), namespace)
    keys = []

    class Gateway:
        async def charge(self, card, idempotency_key):
            keys.append(idempotency_key)
            return len(keys)

    async def handler(run):
        await namespace["work"](run, Gateway(), "card")
        return Response(200, [], b"")

    async def connect():
        return await psycopg.AsyncConnection.connect("", prepare_threshold=None)

    settings = Settings(scope=lambda request: "x", lease=datetime.timedelta(seconds=30))
    for client in ("shop:alice", "shop:bob", "shop:alice"):
        await serve(Pool(connect, in_loop=True), settings, Keyed(client, "POST", "/payments", '"1"', b""), handler)
    same("package: two clients with one key have two keys at the gateway", keys, ["shop:alice/1", "shop:bob/1"])


# The types of READERS. Frameworks without types in Debian have those that the blocks need.
READER_TYPES = '''
from collections.abc import Callable
from typing import Any, TypeVar
from fastapi import FastAPI
from idem_postgres import AsyncRun

F = TypeVar("F", bound=Callable[..., Any])

class Framework(FastAPI):
    config: dict[str, Any]
    wsgi_app: Any
    task: Callable[..., Callable[[F], F]]

scope: Callable[[Any], str]
app: Framework
run: AsyncRun
dsn: str
Account: Any; Order: Any; Payment: Any; Stock: Any; card: Any; connection: Any; gateway: Any; pages: list[Any]; pool: Any; write: Any
'''


# The SDK, which Debian lacks.
MCP_TYPES = '''
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

class Context:
    request_context: Any

class FastMCP:
    def __init__(self, name: str) -> None: ...
    def tool(self) -> Callable[[F], F]: ...
'''


def check_types(environment, readme):
    """The package, and each block of Python of the README, which begins with the imports that it needs."""
    mypy = ["mypy", "--cache-dir", os.path.join(ROOT, "build/integrations/python/mypy")]
    found = subprocess.run(mypy, cwd=SOURCE, env=environment, capture_output=True, text=True)
    check("package: mypy --strict", found.returncode == 0, found.stdout + found.stderr)
    blocks = os.path.join(ROOT, "build/integrations/python/blocks")
    shutil.rmtree(blocks, ignore_errors=True)
    os.makedirs(blocks)
    with open(f"{blocks}/readers.py", "w") as file:
        file.write(READER_TYPES)
    os.makedirs(f"{blocks}/mcp/server")
    for path, text in ("__init__.pyi", ""), ("server/__init__.pyi", ""), ("server/fastmcp.pyi", MCP_TYPES):
        with open(f"{blocks}/mcp/{path}", "w") as file:
            file.write(text)
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)):
        code = block.replace("…", "...")
        nodes = list(ast.walk(ast.parse(code)))
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        stored |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        used = {node.id for node in nodes if isinstance(node, ast.Name)} & READERS - stored
        imports = f"from readers import {', '.join(sorted(used))}\n" if used else ""
        if "await " in code and "async def" not in code:  # the inside of a handler
            code = "async def handler() -> None:\n" + textwrap.indent(code, "    ")
        with open(f"{blocks}/block{number}.py", "w") as file:
            file.write(imports + code)
    # Django's decorators have no types without its stubs, which Debian lacks.
    strict = [*mypy, "--strict", "--allow-untyped-decorators", "--enable-incomplete-feature=Unpack", "--config-file", f"{SOURCE}/pyproject.toml", "."]
    found = subprocess.run(strict, cwd=blocks, env={**environment, "MYPYPATH": f"{SOURCE}/src"}, capture_output=True, text=True)
    check("package: mypy --strict of the README's blocks", found.returncode == 0, found.stdout + found.stderr)
