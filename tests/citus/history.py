"""What clients saw, as the judge of the chaos tests reads it (tests/chaos/judge/history.hpp)."""

import re
import threading
import time

RETENTION = 24 * 3600 * 10**9


def line(kind, **fields):
    """Fields that are None are left out. Blanks, control characters and the percent sign are %XX."""
    def escaped(value):
        return re.sub(r"[\x00- %\x7f]", lambda match: f"%{ord(match[0]):02X}", str(value))

    return " ".join([kind] + [f"{name}={escaped(value)}" for name, value in fields.items() if value is not None])


class Transaction:
    def __init__(self, number, client):
        self.number = number
        self.client = client
        self.begun = time.monotonic_ns()
        self.ended = None
        self.fate = "aborted"
        self.lines = []

    def call(self, db, call, key, statement, arguments, outcome_of=lambda found: found[0], **fields):
        """Runs the statement of a call, and notes its answer. A call without an answer is noted, too."""
        sent = time.monotonic_ns()
        answer = {"sqlstate": "08006"}
        try:
            found = db.execute(statement, arguments).fetchone()
            answer = {"outcome": outcome_of(found)} | ({"response_given": found[1]} if len(found) > 1 else {})
        except Exception as error:
            answer = {"sqlstate": getattr(error, "sqlstate", None) or "08006"}
            raise
        finally:
            self.lines.append(line("step", call=call, key=key, sent=sent, received=time.monotonic_ns(), **fields, **answer))
        return found

    def effect(self, key):
        self.lines.append(line("effect", key=key, transaction=self.number))

    def end(self, fate):
        self.fate = fate
        self.ended = time.monotonic_ns()


class History:
    def __init__(self, seed, transitions):
        self.lock = threading.Lock()
        self.seed = seed
        self.transitions = transitions
        self.transactions = []

    def transaction(self, client):
        with self.lock:
            self.transactions.append(Transaction(len(self.transactions) + 1, client))
            return self.transactions[-1]

    def write(self, file, effects, moves, states):
        with open(file, "w", encoding="utf-8") as out:
            print("idem-chaos-history 1", line("seed", value=self.seed), *(line("transition", **{"from": before, "to": after}) for before, after in self.transitions), sep="\n", file=out)
            for done in self.transactions:
                print(line("transaction", id=done.number, client=done.client, isolation="rc", begun=done.begun, ended=done.ended, fate=done.fate), *done.lines, sep="\n", file=out)
            for key, number in effects:
                print(line("final-effect", key=key, transaction=number), file=out)
            for key, before, after in moves:
                print(line("final-move", key=key, **{"from": before, "to": after}), file=out)
            for key, state in states:
                print(line("final-state", order=key, state=state), file=out)
