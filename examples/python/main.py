#!/usr/bin/python3
"""Payment requests that come once, twice or three times at once, and a gateway that times out: each is paid once.

libpq's environment (PGHOST, PGUSER ...) names the database; its tables are those of examples/payments.sql.
usage: main.py [REQUESTS]
"""
import collections, concurrent.futures, itertools, queue, sys, threading
import psycopg
from psycopg.types.json import Jsonb

REQUESTS, WORKERS = int(sys.argv[1]) if len(sys.argv) > 1 else 100, 8
counts, counting = collections.Counter(), threading.Lock()


def count(what, number=1):
    with counting:
        counts[what] += number


class Gateway:
    """A bank behind a bad line. It charges once per reference, as real ones do; of every tenth the first answer is lost."""

    def __init__(self):
        self.lock, self.charges = threading.Lock(), {}

    def charge(self, reference, amount):
        with self.lock:
            first = reference not in self.charges
            charge = self.charges.setdefault(reference, f"ch_{len(self.charges) + 1}")
        if first and reference.endswith("0"):
            raise TimeoutError
        return charge


def handle(db, gateway, request, amount, wait):
    """What a server does with a request: returns status and body."""
    outcome, fence, status, body = db.execute(
        """SELECT outcome, fence, status_code, response
           FROM idem.idem_begin(%s, idem.idem_fingerprint(%s), lease => '30 s', wait => %s, scope => 'pay')""",
        (request, Jsonb({"amount": amount}), wait)).fetchone()
    if outcome == "completed":  # its payment has committed: the same answer as then
        count("replayed")
        return status, body
    if outcome == "in_flight":
        count("in flight")
        return 409, {"error": "somebody is at it"}
    if outcome == "mismatch":
        count("refused")
        return 422, {"error": "this key was used for another request"}
    try:  # acquired or taken over: ours, and everybody can see that while the gateway takes its time
        charge = gateway.charge(request, amount)
    except TimeoutError:  # did it charge? it will tell by the reference, when the client comes again
        count("timed out")
        db.execute("SELECT idem.idem_release(%s, %s, scope => 'pay')", (request, fence))
        return 503, {"error": "the gateway did not answer"}
    with db.transaction():  # the payment and the answer about it: both or neither
        number, = db.execute("INSERT INTO payment (request, amount, charge) VALUES (%s, %s, %s) RETURNING id",
                             (request, amount, charge)).fetchone()
        body = {"payment": number, "charge": charge}
        db.execute("SELECT idem.idem_complete(%s, %s, 201, %s, scope => 'pay')", (request, Jsonb(body), fence))
    count("run")
    return 201, body


def deliver(db, gateway, request, delivery, amount):
    """What a client does: comes again until it is told how it ended."""
    for wait in itertools.chain(["0"], itertools.repeat("1 s")):
        status, body = handle(db, gateway, request, amount, wait)
        if status not in (409, 503):
            db.execute("INSERT INTO answer VALUES (%s, %s, %s, %s)", (request, delivery, status, Jsonb(body)))
            return
        count("retried")


def receive(db, messages):
    """A batch from a broker that delivers at least once: what is new is applied, in the transaction that claims it."""
    with db.transaction():
        new = [row[0] for row in db.execute("SELECT * FROM idem.idem_claim_many(%s, scope => 'mail')", (messages,))]
        db.execute("INSERT INTO receipt SELECT unnest(%s::text[])", (new,))
    count("applied", len(new))
    count("seen before", len(messages) - len(new))


def work(jobs):
    with psycopg.connect(autocommit=True) as db:
        while job := jobs.get():
            job[0](db, *job[1:])


def main():
    gateway, jobs = Gateway(), queue.Queue()
    names = [f"request {number}" for number in range(1, REQUESTS + 1)]
    for number, name in enumerate(names):  # next to each other, so that several workers have the same one at the same time
        for delivery in range(1 + number % 3):
            jobs.put((deliver, gateway, name, delivery, 100 + number))
    jobs.put((deliver, gateway, names[0], 99, 1))  # the same key, another amount
    for start in range(0, REQUESTS, 10):  # batches that overlap
        jobs.put((receive, names[start:start + 20]))
    for _ in range(WORKERS):
        jobs.put(None)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for worker in [pool.submit(work, jobs) for _ in range(WORKERS)]:
            worker.result()
    print(", ".join(f"{counts[what]} {what}" for what in
                    ("run", "replayed", "refused", "in flight", "timed out", "retried", "applied", "seen before")))


main()
