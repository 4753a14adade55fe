#!/usr/bin/python3
"""A server that takes orders: POST /orders, guarded by idem; POST /plain/orders, not guarded.

libpq's environment names the database, shop.sql has its tables. Any number of these servers share it.
usage: shop.py PORT [--faulty]
A faulty server lets its clients choose what goes wrong, by the header X-Fault: "drop" hangs up after the work was committed, "hang" keeps
silent after it, and "slow" keeps silent before it commits.
"""
import http.server, json, sys, time
import psycopg
from psycopg.types.json import Jsonb

PORT, FAULTY = int(sys.argv[1]), "--faulty" in sys.argv
SILENCE = 4.5  # seconds: nginx waits for 3, then as long for the other server


class Shop(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        item = self.rfile.read(int(self.headers["Content-Length"])).decode()
        # A client that tries again itself names its request. Between nginx and here, the request's id will do.
        key = self.headers["Idempotency-Key"] or self.headers["X-Request-Id"]
        fault = self.headers["X-Fault"] if FAULTY else None
        with psycopg.connect() as db:
            db.execute("INSERT INTO arrival VALUES (%s, %s, %s)", (PORT, self.path, self.headers["X-Request-Id"]))
            db.commit()
            status, headers, body = (self.guarded if self.path == "/orders" else self.plain)(db, key, item)
            if fault == "slow":
                time.sleep(SILENCE)
        # Committed. From here on the only thing that can get lost is the answer.
        if fault == "hang":
            time.sleep(SILENCE)
        if fault == "drop":
            self.close_connection = True
            return
        try:
            self.reply(status, headers, body)
        except BrokenPipeError:
            pass  # nobody listens any more

    def plain(self, db, key, item):
        number, = db.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", (item,)).fetchone()
        return 201, {"Content-Type": "application/json", "Location": f"/orders/{number}"}, json.dumps({"order": number})

    def guarded(self, db, key, item):
        """One order per key, and one answer: claim, order and answer are one transaction."""
        action, status, headers, body = db.execute(
            "SELECT action, status, headers, body FROM idem.idem_http_begin('shop', 'POST', '/orders', %s, %s, wait => '5 s')",
            (key, item)).fetchone()
        if action == "run":
            status, headers, body = self.plain(db, key, item)
            db.execute("SELECT idem.idem_http_complete('shop', %s, %s, %s, %s)", (key, status, Jsonb(headers), body))
        return status, headers, body

    def reply(self, status, headers, body):
        content = body.encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
