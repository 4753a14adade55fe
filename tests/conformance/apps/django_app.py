"""The reference app of `idem http-test --reference` for Django, which has a connection for each thread and no pool: ../README.md has its
routes."""

import json
import os
import threading
import time
from contextlib import suppress

import django
import reference
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="a test",
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
                           "USER": os.environ["PGUSER"], "NAME": os.environ["PGDATABASE"], "OPTIONS": {"application_name": "conformance"}}},
    MIDDLEWARE=[f"{__name__}.AnswersErrors", "idem_postgres.django.IdemMiddleware"],
    IDEM={"scope": lambda request: scope(request), "skip": lambda request: request.path == "/leased" or request.path.startswith("/hooks")},
)  # fmt: skip
django.setup()


class HttpError(Exception):
    """Django itself has none for 402."""


class AnswersErrors:
    def __init__(self, get_response):
        self._get_response = get_response

    def __call__(self, request):
        return self._get_response(request)

    def process_exception(self, request, exception):
        return HttpResponse("thrown", status=exception.args[0]) if isinstance(exception, HttpError) else None


from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from idem_postgres.django import idempotent


def scope(request):
    return reference.scope(request.headers.get("authorization"), request.method, request.path)


def insert(cursor, key):
    cursor.execute(reference.INSERT, [key])
    return cursor.fetchone()[0]


def respond(body, id):
    status, headers, text = reference.answer(body, id)
    return HttpResponse(text, status=status, headers=headers)


def work(request):
    body, key = json.loads(request.body), reference.begin(request.idem)
    with connection.cursor() as cursor:
        id = insert(cursor, key)
    time.sleep(body.get("pause", 0) / 1000)
    if "throw" in body:
        raise HttpError(body["throw"])
    return respond(body, id)


def stream(request):
    with connection.cursor() as cursor:
        id = insert(cursor, reference.begin(request.idem))

    def slowly():
        for part in reference.parts(id):
            yield part
            time.sleep(0.005)

    return StreamingHttpResponse(slowly(), status=201, content_type="text/plain")


def late(request):
    handle, key = request.idem.connection, request.idem.header.strip('"')

    def insert_late():
        with suppress(Exception), handle.cursor() as cursor:
            insert(cursor, key)

    response = work(request)
    threading.Timer(0.2, insert_late).start()
    return response


@idempotent(scope=scope, lease="1 s", wait="10 s")
def leased(request):
    run, body = request.idem, json.loads(request.body)
    key = reference.begin(run)
    time.sleep(body.get("pause", 0) / 1000)
    if run.steps.get("effect") is None:
        with reference.own.connection() as own, own.transaction():  # commits the effect and the step under the fence together
            insert(own.cursor(), key)
            run.step("effect", {"done": True}, connection=own)
    return respond(body, run.fence)


def hook(act):
    def view(request):
        act()
        return HttpResponse(status=204)

    return view


urlpatterns = [path(name, work) for name in ("orders", "other")] + [
    path("double", idempotent(scope=scope)(work)), path("stream", stream), path("late", late), path("leased", leased),
    path("effects", lambda request: JsonResponse(reference.effects(request.GET["key"]))),
    path("hooks/kill", hook(reference.kill)), path("hooks/disconnect", hook(reference.disconnect)),
    path("hooks/lose-commit", hook(reference.lose_commit)),
]  # fmt: skip
reference.serve_wsgi(get_wsgi_application())
