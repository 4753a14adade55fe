"""The tests of one framework after the other. Prints TAP. run.sh makes the database."""

import asyncio
import concurrent.futures
import os
import sys

import psycopg

import tap
from cases import Cases
from server import Server, python
from storm import storm

REQUESTS = int(os.environ.get("IDEM_REQUESTS", "1000"))
LOGS = os.environ["IDEM_LOGS"]
# Past the pooler, if there is one.
DIRECT = os.environ["IDEM_DIRECT"]


def reset():
    with psycopg.connect(DIRECT, autocommit=True) as db:
        db.execute(
            """DROP TABLE IF EXISTS orders, sent;
               CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, number int NOT NULL);
               CREATE TABLE sent (number int NOT NULL);
               DELETE FROM idem.idem_keys"""
        )


def rows(table="orders"):
    with psycopg.connect(DIRECT) as db:
        return dict(db.execute(f"SELECT number, count(*)::int FROM {table} GROUP BY number").fetchall())


def uvicorn(app):
    return python("-m", "uvicorn", f"{app}:app", "--port", "{port}", "--log-level", "warning", "--lifespan", "on")


def gunicorn(app):
    """Threads, so that connections are kept and requests run at once."""
    return python("-m", "gunicorn", f"{app}:app", "--bind", "127.0.0.1:{port}", "--worker-class", "gthread", "--threads", "16", "--log-level", "warning")


async def web(name, command, environment, leased_path=None, sent=False):
    reset()
    server = Server(command, environment, f"{LOGS}/{name}.log").start()
    try:
        cases = Cases(name, server, rows)
        await cases.all()
        if leased_path:
            await cases.leased()
        reset()
        await storm(name, server, "/orders", REQUESTS, rows)
        if sent:
            tap.check(f"{name}: background tasks see the committed order", 0 < len(rows("sent")) <= REQUESTS, rows("sent"))
    finally:
        server.stop()


def fastapi(driver):
    return lambda: web(f"fastapi-{driver}", uvicorn("fastapi_app"), {"DRIVER": driver}, "/payments", sent=True)


async def fastapi_with_routes():
    import routes

    reset()
    await routes.run()
    await fastapi("psycopg")()


async def django():
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # this test's own thread has an event loop
    import rows as rows_test
    import views

    reset()
    rows_test.run()
    views.run()
    await web("django", gunicorn("django_app"), {}, "/payments")


def flask(driver):
    return lambda: web(f"flask-{driver}", gunicorn("flask_app"), {"DRIVER": driver}, "/payments", sent=True)


async def functions():
    import functions

    await functions.all_drivers()


async def celery():
    import tasks

    reset()
    tasks.run(REQUESTS, rows, DIRECT, LOGS)


async def vectors():
    import vectors

    vectors.run()


async def flows():
    import flows

    reset()
    flows.all_flows(rows)


async def work():
    import fakes
    import work

    reset()
    work.run(rows)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # which has no event loop
        thread.submit(fakes.run).result()


async def tools():
    import tools

    reset()
    await tools.run(rows)


async def package():
    import package

    await package.run(DIRECT, LOGS)


SUITES = {
    "package": package,
    "vectors": vectors,
    "flows": flows,
    "functions": functions,
    "work": work,
    "tools": tools,
    "fastapi": fastapi_with_routes,
    "fastapi-asyncpg": fastapi("asyncpg"),
    "fastapi-sqlalchemy": fastapi("sqlalchemy"),
    "flask": flask("psycopg2"),
    "flask-psycopg": flask("psycopg"),
    "flask-sqlalchemy": flask("sqlalchemy"),
    "celery": celery,
    "django": django,
}

for suite in sys.argv[1:]:
    asyncio.run(SUITES[suite]())
tap.end()
