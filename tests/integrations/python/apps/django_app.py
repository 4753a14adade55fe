"""A shop on Django: the middleware for its orders, the decorator for its payments."""

import datetime
import os
import time

import django
from django.conf import settings


def scope(request):
    from idem_postgres import Problem

    if not (token := request.headers.get("Authorization", "client:1")):
        raise Problem(401, "Who are you?")
    return token if token != "nobody" else ""


def exclude(request):
    return request.path == "/free" or request.path.startswith("/payments")


def gone(get_response):
    """As a middleware of the shop that answers its own exceptions."""

    def middleware(request):
        return get_response(request)

    def process_exception(request, exception):
        if type(exception).__name__ == "Gone":
            from django.http import HttpResponse

            return HttpResponse("gone", status=410)

    middleware.process_exception = process_exception
    return middleware


if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="a test",
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
                               "USER": os.environ["PGUSER"], "NAME": os.environ["PGDATABASE"], "CONN_MAX_AGE": 60}},
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", "idem_postgres.django.IdemMiddleware", "django_app.gone"],
        IDEM={"scope": scope, "skip": exclude, "max_body": 100_000, "store_errors": {410}},
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )  # fmt: skip
    django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, connection, models
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from idem_postgres.django import idempotent

from answers import FAILING, answer, order


class Gone(Exception):
    """Which a middleware of the shop answers."""


class Order(models.Model):
    number = models.IntegerField()

    class Meta:
        app_label = "shop"
        db_table = "orders"


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def orders(request):
    if request.method == "GET":
        return JsonResponse({"orders": "all"})
    number, kind, slow = order(request.body)
    Order.objects.create(number=number)
    time.sleep(slow)
    status, headers, body = answer(kind, number)
    return HttpResponse(body, status=status, headers=headers)


@idempotent(scope=scope, lease=datetime.timedelta(seconds=3))
def payments(request):
    number, kind, slow = order(request.body)
    request.idem.step("charge")
    time.sleep(slow)
    Order.objects.create(number=number)
    request.idem.step("charge", {"charge": f"ch_{number}"})
    status, headers, body = answer(kind, number)
    return HttpResponse(body, status=status, headers=headers)


def fail(request, how):
    number, *_ = order(request.body)
    Order.objects.create(number=number)
    if how in FAILING:
        execute(FAILING[how])
    if how.startswith("swallow"):
        try:
            execute(FAILING["broken"])
        except DatabaseError:
            return HttpResponse("swallowed", status=int(how.removeprefix("swallow-")))
    if how == "not-found":
        raise Http404
    if how == "410":
        raise Gone
    if how == "exception":
        raise ValueError("a bug")
    return HttpResponse(how, status=int(how))


def stream(request):
    return StreamingHttpResponse([b"one", b"two", b"three"])


def large(request):
    return StreamingHttpResponse([b"x" * 30_000] * (10 if request.path == "/file" else 100))


def events(request):
    return HttpResponse(b"data: 1\n\n", content_type="text/event-stream")


urlpatterns = [path("orders", orders), path("payments", payments), path("fail/<how>", fail), path("stream", stream),
               path("free", stream), path("events", events), path("file", large), path("huge", large)]  # fmt: skip
app = get_wsgi_application()
