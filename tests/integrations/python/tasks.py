"""Celery: each task id once, with messages that come twice, workers that are killed, and a client that sends what is not
done yet again."""

import os
import sys
import tempfile
import time
import uuid

import psycopg

from server import HERE, Server, python
from tap import check, same


class Worker(Server):
    """A server without a port: ready when it has answered a ping is not needed, messages wait."""

    def start(self):
        import subprocess

        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=os.path.join(HERE, "apps"), env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        return self


def options():
    """What the decorator rejects when the module is loaded."""
    from idem_postgres.celery import once

    async def later():
        return None

    def connect():
        return psycopg.connect("")

    errors = []
    for pool, more in ((later, {}), (connect, {"ttl": "5"}), (connect, {"ttl": 5}), (connect, {"lease": 30}), (connect, {"countdown": 5}), (connect, {"ttl": "2 days", "lease": "30 s"})):
        try:
            once(pool, **more)
            errors.append(None)
        except (TypeError, ValueError) as error:
            errors.append(type(error).__name__)
    same("celery: an asynchronous pool, numbers and text in the wrong place", errors, ["TypeError", "ValueError", "TypeError", "TypeError", "TypeError", None])


def redeliveries():
    """A message that comes again while another worker has the task, which then dies: neither a failure nor a retry of the task."""
    from celery import Celery
    from celery.contrib.testing.worker import start_worker
    from idem_postgres import Idem
    from idem_postgres.celery import once

    app = Celery("again", broker="memory://", backend="cache+memory://")
    app.conf.update(broker_connection_retry_on_startup=True)
    retries = []

    def connect():
        return psycopg.connect("")

    def task_of(name, **options):
        @app.task(name=name, bind=True, acks_late=True, max_retries=0)
        @once(connect, countdown="200 ms", **options)
        def work(task):
            retries.append(task.request.retries)
            return "done"

        return work

    tasks = {"transactional": task_of("transactional"), "leased": task_of("leased", lease="3 s")}
    ids = {name: str(uuid.uuid4()) for name in tasks}
    other = psycopg.connect("")
    Idem(other).begin(ids["transactional"], scope="celery")
    with psycopg.connect("") as dies:
        Idem(dies).begin(ids["leased"], lease="3 s", scope="celery")
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR", shutdown_timeout=60):
        results = {name: task.apply_async(task_id=ids[name]) for name, task in tasks.items()}
        time.sleep(2)
        same("celery: a redelivery while another worker runs the task changes no state", results["transactional"].state, "PENDING")
        other.close()
        got = {}
        for name, result in results.items():
            try:
                got[name] = result.get(timeout=60, propagate=False)
            except Exception as error:
                got[name] = repr(error)
        same("celery: it takes over when that worker has died", got, {"transactional": "done", "leased": "done"})
        same("celery: and uses up no retry of the task's", retries, [0, 0])


def omitted():
    """A result that is too large to be stored: the repetition does not put None in its place."""
    import functools

    from celery import Celery
    from celery._state import _task_stack
    from celery.exceptions import Ignore
    from idem_postgres.celery import once

    app = Celery("large", broker="memory://")
    task = app.task(name="large")(once(lambda: psycopg.connect(""))(functools.partial(str.ljust, "x", 3_000_000)))
    answers = []
    for _ in range(2):
        _task_stack.push(task)
        task.push_request(id="large", called_directly=False, is_eager=False)
        try:
            answers.append(len(task.run()))
        except Ignore:
            answers.append("ignored")
        finally:
            task.pop_request()
            _task_stack.pop()
    same("celery: a result that is too large", answers, [3_000_000, "ignored"])


def run(requests, rows, direct, logs):
    options()
    redeliveries()
    omitted()
    spool = tempfile.mkdtemp(prefix="idem-celery.", dir="/tmp")
    os.environ.update(BROKER_URL="filesystem://", SPOOL=spool)
    sys.path.insert(0, os.path.join(HERE, "apps"))
    import celery_app

    worker = Worker(
        python("-m", "celery", "-A", "celery_app", "worker", "--concurrency", "4", "--loglevel", "WARNING", "--without-gossip", "--without-mingle",
               "--without-heartbeat"), {}, f"{logs}/celery.log")  # fmt: skip
    worker.start()
    try:
        same("celery: a task called as a function runs in a plain transaction", celery_app.place(-1), {"number": -1})
        ids = {number: str(uuid.uuid4()) for number in range(requests)}

        def deliver(number):
            task = celery_app.charge if number % 4 == 3 else celery_app.fragile if number % 20 == 10 else celery_app.place
            slow = {"slow": 0.1} if number % 10 == 1 else {}
            task.apply_async((number,), slow, task_id=ids[number])

        for number in ids:
            for _ in range(1 + number % 3):
                deliver(number)
        kills, last = 0, time.monotonic()
        deadline = time.monotonic() + 1800
        while len(done := rows().keys() & ids.keys()) < requests and time.monotonic() < deadline:
            time.sleep(0.5)
            if kills < 3 and len(done) > requests * (kills + 1) // 4:
                worker.restart()
                kills += 1
            # What the file system's broker has handed to a worker that was killed is lost; another broker would deliver it
            # again.
            if time.monotonic() - last > 20:
                last = time.monotonic()
                for number in ids.keys() - done:
                    deliver(number)
        for number in list(ids)[:50]:
            deliver(number)
        _until_quiet(spool, direct)
        got = rows()
        missing = [number for number in ids if number not in got]
        same(f"celery: each of {requests} tasks had its effect", missing, [])
        same("celery: none had it twice", [number for number in ids if got.get(number, 0) > 1], [])
        check("celery: workers were killed", kills == 3, kills)
        with psycopg.connect(direct) as db:
            (state,) = db.execute("SELECT state FROM idem.idem_lookup(%s, 'celery')", (ids[0],)).fetchone()
            (response,) = db.execute("SELECT response FROM idem.idem_lookup(%s, 'celery')", (ids[0],)).fetchone()
        same("celery: the result is stored", (state, response), ("completed", {"result": {"number": 0}}))
    finally:
        worker.stop()
        import shutil

        shutil.rmtree(spool)


def _until_quiet(spool, direct):
    """No message waits, and no worker works."""
    deadline = time.monotonic() + 120
    quiet = 0
    while quiet < 5 and time.monotonic() < deadline:
        with psycopg.connect(direct) as db:
            (busy,) = db.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()").fetchone()
        quiet = quiet + 1 if not busy and not os.listdir(spool) else 0
        time.sleep(0.5)
