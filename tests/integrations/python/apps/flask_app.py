"""A shop on Flask, on psycopg2; or on SQLAlchemy or psycopg 3, as DRIVER says."""

import datetime
import os
import time

from flask import Flask, Response, abort, request
from idem_postgres import Problem, WsgiMiddleware, current

from answers import FAILING, answer, order

app = Flask(__name__)
# The middleware sees the exceptions, and answers a deadlock with 503.
app.config["PROPAGATE_EXCEPTIONS"] = True


def make_pool(driver):
    if driver == "psycopg2":
        from psycopg2.pool import ThreadedConnectionPool

        return ThreadedConnectionPool(1, 40, "")
    if driver == "psycopg":
        from psycopg_pool import ConnectionPool

        return ConnectionPool("", min_size=1, max_size=12, configure=lambda connection: setattr(connection, "prepare_threshold", None))
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    return sessionmaker(create_engine("postgresql+psycopg2://", pool_size=12))


pool = make_pool(os.environ["DRIVER"])


def execute(connection, statement, *values):
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(statement.replace("{}", "%s"), values or None)
    else:
        from sqlalchemy import text

        connection.execute(text(statement.replace("{}", ":value")), {"value": value for value in values})


def elsewhere(statement, *values):
    """On a connection of its own."""
    import psycopg2

    connection = psycopg2.connect("")
    with connection:
        execute(connection, statement, *values)
    connection.close()


def scope(request):
    if not (token := request.headers.get("authorization", "client:1")):
        raise Problem(401, "Who are you?")
    return token if token != "nobody" else ""


def is_leased(request):
    return request.path.startswith("/payments")


options = dict(pool=pool, scope=scope, max_body=100_000, store_errors={410})
app.wsgi_app = WsgiMiddleware(app.wsgi_app, **options, skip=lambda request: is_leased(request) or request.path == "/free")
app.wsgi_app = WsgiMiddleware(
    app.wsgi_app, **options, skip=lambda request: not is_leased(request), lease=datetime.timedelta(seconds=3)
)


@app.post("/orders")
def orders():
    number, kind, slow = order(request.get_data())
    execute(current().connection, "INSERT INTO orders (number) VALUES ({})", number)
    time.sleep(slow)
    status, headers, body = answer(kind, number)
    response = Response(body, status, headers)
    response.call_on_close(lambda: elsewhere("INSERT INTO sent SELECT number FROM orders WHERE number = {}", number))
    return response


@app.post("/payments")
def payments():
    number, kind, slow = order(request.get_data())
    current().step("charge")
    time.sleep(slow)
    elsewhere("INSERT INTO orders (number) VALUES ({})", number)
    current().step("charge", {"charge": f"ch_{number}"})
    status, headers, body = answer(kind, number)
    return Response(body, status, headers)


@app.post("/fail/<how>")
def fail(how):
    number, *_ = order(request.get_data())
    connection = current().connection
    execute(connection, "INSERT INTO orders (number) VALUES ({})", number)
    if how in FAILING:
        execute(connection, FAILING[how])
    if how.startswith("swallow"):
        try:
            execute(connection, FAILING["broken"])
        except Exception:
            return Response("swallowed", int(how.removeprefix("swallow-")))
    if how in ("not-found", "410"):
        abort(404 if how == "not-found" else 410)
    if how == "exception":
        raise ValueError("a bug")
    return Response(how, int(how))


@app.post("/stream")
@app.post("/free")
def stream():
    return Response(iter([b"one", b"two", b"three"]))


@app.post("/file")
@app.post("/huge")
def large():
    return Response(iter([b"x" * 30_000] * (10 if request.path == "/file" else 100)))


@app.post("/events")
def events():
    return Response(iter([b"data: 1\n\n"]), content_type="text/event-stream")


@app.get("/orders")
def listing():
    return {"orders": "all"}
