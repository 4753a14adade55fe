"""Django's middleware in this process: a view in leased mode whose lease passes to another request, and transactions around idem's."""

import datetime
import functools
import logging

import psycopg

from tap import same


def run():
    leases()
    mounted_twice()
    atomic_requests()
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


def mounted_twice():
    """The decorator behind the middleware passes the request through."""
    import django_app
    from django.http import Http404, HttpResponse
    from django.test import Client, override_settings
    from django.urls import path
    from idem_postgres.django import idempotent

    ran = []

    @idempotent(scope=django_app.scope)
    def order(request):
        ran.append(request.idem.header)
        django_app.Order.objects.create(number=-70)
        return HttpResponse("ordered", status=201)

    @idempotent(scope=django_app.scope)
    @idempotent(scope=django_app.scope, store_errors={404})
    def missing(request):
        django_app.Order.objects.create(number=-71)
        raise Http404

    class Urls:
        urlpatterns = [path("order", order), path("missing", missing)]

    def post(name):
        answer = client.post(f"/{name}", HTTP_IDEMPOTENCY_KEY=f'"twice-{name}"')
        return answer.status_code, answer.content[:7], answer.get("Idempotent-Replayed")

    client = Client(raise_request_exception=False)
    with override_settings(IDEM={"scope": django_app.scope}, ROOT_URLCONF=Urls):
        same("django: the decorator behind the middleware", [post("order"), post("order")], [(201, b"ordered", None), (201, b"ordered", "true")])
        same("django: the view ran once", ran, ['"twice-order"'])
        same("django: Http404 rolls back", [post("missing")[::2] for _ in range(2)], [(404, None)] * 2)
    rows = [django_app.Order.objects.filter(number=number).count() for number in (-70, -71)]
    same("django: their rows", rows, [1, 0])


def atomic_requests():
    """Django's transaction around a view: leased work must not be a part of it."""
    import django_app
    from django.db import connection, transaction
    from django.http import HttpResponse
    from django.test import Client, override_settings
    from django.urls import path
    from idem_postgres.django import DjangoPool, idempotent
    from idem_postgres import lock

    seen, charged = [], []
    options = {"scope": django_app.scope, "lease": datetime.timedelta(seconds=30)}

    def pay(request):
        """Fails after the charge."""
        seen.append(request.idem.steps)
        request.idem.step("charge")
        charged.append(request.idem.key)
        request.idem.step("charge", {"charge": "ch_1"})
        raise ValueError("a bug")

    def book(request):
        """A step with its rows, in a transaction that the view begins."""
        with transaction.atomic():
            django_app.Order.objects.create(number=-60)
            request.idem.step("book", {"order": -60}, connection=connection)
        return HttpResponse(status=201)

    def order(request):
        django_app.Order.objects.create(number=-61)
        return HttpResponse(status=201)

    def locked(request):
        with lock(DjangoPool(), "atomic"):
            return HttpResponse("held")

    class Decorated:
        urlpatterns = [
            path("atomic", idempotent(**options)(pay)),
            path("pay", transaction.non_atomic_requests(idempotent(**options)(pay))),
            path("book", transaction.non_atomic_requests(idempotent(**options)(book))),
            path("order", idempotent(scope=django_app.scope)(order)),
            path("locked", locked),
        ]

    class Plain:
        urlpatterns = [path("atomic", pay), path("pay", transaction.non_atomic_requests(functools.partial(pay)))]

    def post(name, key):
        answer = client.post(f"/{name}", HTTP_IDEMPOTENCY_KEY=key)
        return answer.status_code, answer.get("Idempotent-Replayed")

    client = Client(raise_request_exception=False)
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    with override_settings(MIDDLEWARE=[], ROOT_URLCONF=Decorated):
        same("django: atomic requests: a leased view is refused, and does not run", (post("atomic", "a1"), seen), ((500, None), []))
        seen.clear()
        post("pay", "a2"), post("pay", "a2")
        same("django: non-atomic requests: a retry finds the steps of a view that raised", seen, [{}, {"charge": {"charge": "ch_1"}}])
        same("django: non-atomic requests: a step in the view's own transaction", [post("book", "a3") for _ in range(2)], [(201, None), (201, "true")])
        same("django: atomic requests: a view in transactional mode", [post("order", "a4") for _ in range(2)], [(201, None), (201, "true")])
        same("django: atomic requests: a lock is refused", post("locked", "a5")[0], 500)
    seen.clear()
    client = Client(raise_request_exception=False)
    with override_settings(IDEM=options, ROOT_URLCONF=Plain):
        post("atomic", "a6")
        same("django: atomic requests: the middleware's step is refused, before the charge", (len(seen), "a6" in charged), (1, False))
        seen.clear()
        post("pay", "a7"), post("pay", "a7")
        same("django: non-atomic requests: the middleware's step is kept", seen, [{}, {"charge": {"charge": "ch_1"}}])
    connection.settings_dict["ATOMIC_REQUESTS"] = False
    rows = [django_app.Order.objects.filter(number=number).count() for number in (-60, -61)]
    same("django: atomic requests: the rows, once", rows, [1, 1])


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
