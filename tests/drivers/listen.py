"""LISTEN, directly and through the pooler on port DIRECT and POOLED: only the first hears of a message. Prints TAP.

    listen.py DIRECT POOLED
"""

import select
import sys

import psycopg2


def listener(port):
    connection = psycopg2.connect(port=port)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("LISTEN idem_outbox")
    return connection


def heard(connection, seconds):
    select.select([connection], [], [], seconds)
    connection.poll()
    return [(notice.channel, notice.payload) for notice in connection.notifies]


def report(number, is_so, name):
    print(f"{'ok' if is_so else 'not ok'} {number} - {name}", flush=True)
    return is_so


direct, pooled = (listener(int(port)) for port in sys.argv[1:])
publisher = psycopg2.connect(port=int(sys.argv[2]))
with publisher, publisher.cursor() as cursor:
    cursor.execute("SELECT idem.idem_publish('topic', '{}')")
print("1..2")
results = [
    report(1, heard(direct, 10) == [("idem_outbox", "topic")], "LISTEN: a relay that is connected to the server is woken"),
    report(2, heard(pooled, 0.3) == [], "LISTEN: through pgbouncer in transaction mode it succeeds, and hears nothing"),
]
sys.exit(not all(results))
