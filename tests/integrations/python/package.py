"""The wheel in an empty project, and the example at the top of the README as printed."""

import json
import os
import re
import shutil
import subprocess

import psycopg
from http_client import send
from server import HERE, Server
from tap import check, same

ROOT = os.path.normpath(os.path.join(HERE, "../../.."))
SOURCE = os.path.join(ROOT, "integrations/python")


async def run(direct, logs):
    built = subprocess.run([os.path.join(ROOT, "scripts/integrations.sh"), "python"], check=True, capture_output=True, text=True).stdout
    work = os.path.join(ROOT, "build/integrations/python/package")
    shutil.rmtree(work, ignore_errors=True)
    os.mkdir(work)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def command(*words):
        subprocess.run(words, check=True, cwd=work, env=environment, stdout=subprocess.DEVNULL)

    command("/usr/bin/python3", "-m", "venv", "--system-site-packages", "venv")
    command("venv/bin/pip", "install", "--quiet", "--no-deps", "--no-index", built.strip())

    readme = open(f"{SOURCE}/README.md").read()
    block = re.match(r"```python\n(.*?)```\n", readme, re.DOTALL)
    check("package: the README begins with example.py", block and block[1] == open(f"{SOURCE}/example.py").read(), readme[:500])
    os.mkdir(f"{work}/project")
    with open(f"{work}/project/example.py", "w") as file:
        file.write(block[1])
    with psycopg.connect(direct, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id serial PRIMARY KEY, item text)")
    server = Server([f"{work}/venv/bin/python", "-m", "uvicorn", "--app-dir", f"{work}/project", "example:app", "--port", "{port}"], {"PYTHONPATH": ""}, f"{logs}/package.log").start()
    try:
        headers = [("X-API-Key", "key-of-alice"), ("Idempotency-Key", '"8e03978e"')]
        answers = [await send(server.port, "POST", "/orders?item=apples", headers) for _ in range(2)]
        same("package: the example answers", (answers[0].status, json.loads(answers[0].body)), (201, {"order": 1, "item": "apples"}))
        same("package: and repeats its answer", (answers[1].body, answers[1].headers.get("idempotent-replayed")), (answers[0].body, "true"))
        document = json.loads((await send(server.port, "GET", "/openapi.json")).body)
        names = [parameter["name"] for parameter in document["paths"]["/orders"]["post"]["parameters"]]
        check("package: its OpenAPI document has the header", "idempotency-key" in names, names)
    finally:
        server.stop()
    with psycopg.connect(direct) as db:
        same("package: one row", db.execute("SELECT count(*)::int FROM orders").fetchone(), (1,))
    check_types(environment)


def check_types(environment):
    """With mypy, where it is installed."""
    if shutil.which("mypy"):
        found = subprocess.run(["mypy", "--cache-dir", os.path.join(ROOT, "build/integrations/python/mypy")], cwd=SOURCE, env=environment, capture_output=True, text=True)
        check("package: mypy --strict", found.returncode == 0, found.stdout)
