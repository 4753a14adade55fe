"""Tasks of a shop. The broker delivers some twice, and workers are killed."""

import datetime
import os
import time

import psycopg2
from celery import Celery
from idem_postgres import current
from idem_postgres.celery import once

app = Celery("shop", broker=os.environ["BROKER_URL"])
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=4, task_ignore_result=True,
                broker_transport_options={"data_folder_in": os.environ["SPOOL"], "data_folder_out": os.environ["SPOOL"]})  # fmt: skip


def connect():
    return psycopg2.connect("")


@app.task(name="order")
@once(connect, countdown="200 ms")
def place(number, slow=0):
    with current().connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
    time.sleep(slow)
    return {"number": number}


@app.task(name="charge")
@once(connect, countdown="200 ms", lease=datetime.timedelta(seconds=2))
def charge(number, slow=0):
    run = current()
    if run.steps.get("charge") is None:
        run.step("charge")
        time.sleep(slow)
        connection = connect()
        with connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
            run.step("charge", {"charge": number}, connection=connection)
        connection.close()
    return {"number": number}


@app.task(name="fragile", bind=True)
@once(connect)
def fragile(task, number):
    """Fails once; its retry has the same id."""
    with current().connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (number) VALUES (%s)", (number,))
    if task.request.retries == 0:
        raise task.retry(countdown=0, exc=ValueError("once"))
