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
    for pool, more in ((later, {}), (connect, {"ttl": "5"}), (connect, {"ttl": 5}), (connect, {"lease": "30 s"}), (connect, {"ttl": "2 days"})):
        try:
            once(pool, **more)
            errors.append(None)
        except (TypeError, ValueError) as error:
            errors.append(type(error).__name__)
    same("celery: an asynchronous pool, numbers and text in the wrong place", errors, ["TypeError", "ValueError", "TypeError", "TypeError", None])


def run(requests, rows, direct, logs):
    options()
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
