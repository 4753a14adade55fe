"""Django's middleware in this process: a view in leased mode whose lease passes to another request."""

import datetime
import logging

import psycopg

from tap import same


def run():
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
