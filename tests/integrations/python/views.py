"""Django's middleware in this process: a view in leased mode whose lease passes to another request, and transactions around idem's."""

import datetime
import logging

import psycopg

from tap import same


def run():
    leases()
    without_autocommit()


def leases():
    import django_app  # sets Django up
    from django.test import Client, override_settings
    from django.urls import path
    from idem_postgres import Idem

    def stale(request):
        run = request.idem
        with psycopg.connect("") as connection:
            idem = Idem(connection)
            idem.release(run.key, run.fence, scope=run.scope)
            idem.begin(run.key, lease="1 min", scope=run.scope)
        run.step("charge")

    def broken(request):
        with psycopg.connect("") as connection:
            Idem(connection).complete("no such key", fence=1)

    class Urls:
        urlpatterns = [path("stale", stale), path("broken", broken)]

    logging.getLogger("django.request").setLevel(logging.CRITICAL)
    options = {"scope": django_app.scope, "lease": datetime.timedelta(seconds=30)}
    with override_settings(IDEM=options, ROOT_URLCONF=Urls):
        client = Client(raise_request_exception=False)
        answers = [client.post(f"/{name}", HTTP_IDEMPOTENCY_KEY=f'"{name}"') for name in ("stale", "broken")]
    same("django: leased: a step of a stale fence", (answers[0].status_code, answers[0].json()["code"]), (503, "lease_lost"))
    same("django: leased: a stale fence of something else is the view's error", (answers[1].status_code, b"lease_lost" in answers[1].content), (500, False))


def without_autocommit():
    """atomic() does not commit then."""
    import django_app
    from django.db import connection
    from django.http import HttpResponse
    from django.test import Client, override_settings
    from django.urls import path

    def order(request):
        django_app.Order.objects.create(number=-50)
        return HttpResponse(status=201)

    class Urls:
        urlpatterns = [path("order", order)]

    with override_settings(IDEM={"scope": django_app.scope}, ROOT_URLCONF=Urls):
        client = Client(raise_request_exception=False)
        connection.close()
        connection.settings_dict["AUTOCOMMIT"] = False
        refused = client.post("/order", HTTP_IDEMPOTENCY_KEY="manual")
        connection.close()
        connection.settings_dict["AUTOCOMMIT"] = True
        rows = django_app.Order.objects.filter(number=-50).count()
        done = client.post("/order", HTTP_IDEMPOTENCY_KEY="manual")
    same("django: without autocommit", (refused.status_code, rows), (500, 0))
    same("django: with autocommit the same request runs", (done.status_code, django_app.Order.objects.filter(number=-50).count()), (201, 1))
