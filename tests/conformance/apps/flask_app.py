"""The reference app of `idem http-test --reference` for Flask: ../README.md has its routes."""

import threading
import time
from contextlib import suppress

import reference
from flask import Flask, Response, abort, request
from idem_postgres import WsgiMiddleware, current
from psycopg_pool import ConnectionPool

pool = ConnectionPool("", min_size=3, max_size=3, kwargs=reference.SESSION)
app = Flask(__name__)


def scope(request):
    return reference.scope(request.headers.get("authorization"), request.method, request.path)


def mount(does, **options):
    app.wsgi_app = WsgiMiddleware(app.wsgi_app, pool=pool, scope=scope, skip=lambda request: not does(request.path), **options)


mount(lambda path: path == "/double")
mount(lambda path: path != "/leased" and not path.startswith("/hooks"))
mount(lambda path: path == "/leased", lease="1 s", wait="10 s")


def insert(connection, key):
    return connection.execute(reference.INSERT, [key]).fetchone()[0]


def respond(body, id):
    status, headers, text = reference.answer(body, id)
    return Response(text, status, headers)


@app.route("/orders", methods=["POST", "PUT"])
@app.post("/other")
@app.post("/double")
def work():
    body, key = request.get_json(), reference.begin(current())
    id = insert(current().connection, key)
    time.sleep(body.get("pause", 0) / 1000)
    if "throw" in body:
        abort(Response("thrown", body["throw"]))  # Flask has no exception of its own for 402
    return respond(body, id)


@app.post("/stream")
def stream():
    id = insert(current().connection, reference.begin(current()))

    def slowly():
        for part in reference.parts(id):
            yield part
            time.sleep(0.005)

    return Response(slowly(), 201, content_type="text/plain")


@app.post("/late")
def late():
    connection, key = current().connection, current().header.strip('"')

    def insert_late():
        with suppress(Exception):
            insert(connection, key)

    response = work()
    threading.Timer(0.2, insert_late).start()
    return response


@app.post("/leased")
def leased():
    run, body = current(), request.get_json()
    key = reference.begin(run)
    time.sleep(body.get("pause", 0) / 1000)
    if run.steps.get("effect") is None:
        with reference.own.connection() as connection, connection.transaction():  # commits the effect and the step under the fence together
            insert(connection, key)
            run.step("effect", {"done": True}, connection=connection)
    return respond(body, run.fence)


@app.get("/effects")
def effects():
    return reference.effects(request.args["key"])


@app.post("/hooks/kill")
def kill():
    reference.kill()


@app.post("/hooks/disconnect")
def disconnect():
    reference.disconnect()
    return "", 204


@app.post("/hooks/lose-commit")
def lose_commit():
    reference.lose_commit()
    return "", 204


reference.serve_wsgi(app)
