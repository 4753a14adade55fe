#!/usr/bin/env python3
"""The reference app in memory, without idem: what `idem http-test` is tested with. Right, or wrong in one planted way.

    memory.py PROFILE [FAULT]     prints its port; FAULTS lists the faults
"""
import hashlib
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from socketserver import TCPServer
from urllib.parse import parse_qs, urlsplit

FAULTS = """no_replay other_body_replayed no_marker marker_on_first headers_lost no_echo
    double_click in_flight_stored mismatch_ignored mismatch_overwrites wrong_status wrong_form
    shared_by_clients shared_by_routes shared_by_methods key_optional key_malformed_taken first_line_taken long_key_taken
    bytes_compared null_ignored sorted_arrays error_not_stored server_error_kept no_retry_after stuck_after_disconnect
    thrown_error_stored thrown_http_error_commits large_not_stored late_write lost_commit_repeated""".split()

# Statuses of a missing key, a mismatch, and a key in flight, whose codes follow.
PROFILES = {
    "ietf": (400, 422, 409), "stripe": (None, 400, 409), "acp": (400, 422, 409), "ucp": (400, 409, 409)}
CODES = {
    "ietf": ("key_missing", "mismatch", "in_flight", "key_malformed"),
    "stripe": ("", "idempotency_error", "idempotency_key_in_use", "idempotency_error"),
    "acp": ("idempotency_key_required", "idempotency_conflict", "idempotency_in_flight", "invalid"),
    "ucp": ("IDEMPOTENCY_KEY_REQUIRED", "IDEMPOTENCY_CONFLICT", "IDEMPOTENCY_IN_FLIGHT", "INVALID")}
MISSING, MISMATCH, IN_FLIGHT, MALFORMED = range(4)

profile, fault = sys.argv[1], (sys.argv[2:] or [None])[0]
if profile not in PROFILES or fault not in (None, *FAULTS):
    sys.exit(__doc__ + "\n" + " ".join(FAULTS))
ids, lock = count(1), threading.Lock()
entries, effects, runs = {}, {}, {}
loses_commit = threading.Event()


class Thrown(Exception):
    """An error of the handler, with the status that the framework gives it."""


def canonical(value):
    if isinstance(value, dict):
        return {name: canonical(each) for name, each in sorted(value.items()) if not (fault == "null_ignored" and each is None)}
    if isinstance(value, list):
        made = [canonical(each) for each in value]
        return sorted(made, key=repr) if fault == "sorted_arrays" else made
    return int(value) if isinstance(value, float) and value.is_integer() else value


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urlsplit(self.path)
        key = parse_qs(url.query).get("key", [""])[0]
        if url.path == "/effects":
            return self.reply(200, {}, json.dumps({"count": effects.get(key, 0), "runs": runs.get(key, 0)}).encode())
        return self.reply(404, {}, b"{}")

    def do_POST(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.route = urlsplit(self.path).path
        if self.route == "/hooks/lose-commit":
            loses_commit.set()
            return self.reply(204, {}, b"")
        if self.route not in ("/orders", "/other", "/stream", "/late", "/double", "/leased"):
            return self.reply(404, {}, b"{}")
        lines = self.headers.get_all("Idempotency-Key", [])
        field = ", ".join(lines[:1] if fault == "first_line_taken" else lines)
        if not lines and (profile == "stripe" or fault == "key_optional"):
            return self.reply(*self.run(None))
        if not lines:
            return self.refuse(MISSING)
        key = self.key_of(field)
        if key is None:
            return self.refuse(MALFORMED)
        self.key = key
        return self.once(key, field)

    do_PUT = do_POST

    def key_of(self, field):
        if fault == "key_malformed_taken":
            return field.strip('"') or None
        if profile == "ietf":
            match = re.fullmatch(r'"([ !#-\[\]-~]*)"', field)
            return (match[1] if match else None) or None
        if profile == "ucp":
            return field if re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", field) else None
        return field if 1 <= len(field) <= (10_000 if fault == "long_key_taken" else 255) else None

    def fingerprint(self):
        if profile == "acp" and fault != "bytes_compared":
            body = json.dumps(canonical(json.loads(self.body)))
        else:
            body = hashlib.sha256(self.body).hexdigest()
        return (body, None if fault == "shared_by_methods" else self.command) + (() if self.is_apart() else (self.route,))

    def is_apart(self):
        return profile in ("acp", "ucp") or fault == "shared_by_routes"

    def identity(self, key):
        client = None if fault == "shared_by_clients" else self.headers.get("Authorization")
        return client, key, self.route if self.is_apart() and fault != "shared_by_routes" else None

    def once(self, key, field):
        identity, fingerprint = self.identity(key), self.fingerprint()
        echo = {"Idempotency-Key": field} if profile in ("stripe", "acp") and fault != "no_echo" else {}
        with lock:
            entry = entries.get(identity)
            if entry is None or (entry["response"] is None and fault == "double_click"):
                entry = entries[identity] = {"fingerprint": fingerprint, "response": None}
                is_first = True
            else:
                is_first = False
            if not is_first and entry["fingerprint"] != fingerprint and fault != "mismatch_ignored":
                if fault == "mismatch_overwrites":
                    del entries[identity]
                return self.refuse(MISMATCH, echo)
            if not is_first and entry["response"] is None:
                if fault == "in_flight_stored":
                    entry["stuck"] = True
                return self.refuse(IN_FLIGHT, echo)
            if not is_first:
                return self.replay(entry, echo)
        try:
            response = self.run(key)
        except Thrown as error:
            with lock:
                if fault == "thrown_http_error_commits":
                    self.effect(key)
                if fault == "thrown_error_stored":
                    entry["response"] = (error.args[0], {}, b'{"error": "thrown"}')
                else:
                    del entries[identity]
            return self.reply(error.args[0], echo, json.dumps({"error": next(ids)}).encode())
        if loses_commit.is_set():
            loses_commit.clear()
            with lock:
                entry["response"] = response
                if fault == "lost_commit_repeated":
                    del entries[identity]
            return self.reply(503, echo | {"Retry-After": "1"}, b"{}")
        return self.keep(identity, entry, response, echo)

    def keep(self, identity, entry, response, echo):
        status, headers, body = response
        with lock:
            if (status >= 500 and profile in ("acp", "ucp") and fault != "server_error_kept") or \
                    (400 <= status < 500 and fault == "error_not_stored") or fault == "no_replay" or \
                    (len(body) > 100_000 and fault == "large_not_stored"):
                entries.pop(identity, None)
            else:
                entry["response"] = response
        marker = {"Idempotent-Replayed": "true"} if fault == "marker_on_first" else {}
        if fault == "stuck_after_disconnect" and self.is_gone():
            entry["response"] = None
        self.reply(status, headers | echo | marker, body)
        if self.route == "/late" and fault == "late_write":
            self.effect(self.key)

    def is_gone(self):
        self.connection.settimeout(0.05)
        try:
            return self.connection.recv(1) == b""
        except TimeoutError:
            self.connection.settimeout(None)
            return False
        except OSError:
            return True

    def replay(self, entry, echo):
        status, headers, body = entry["response"]
        if entry.get("stuck"):
            return self.refuse(IN_FLIGHT, echo)
        if fault == "other_body_replayed":
            body = b'{"already": "done"}'
        if fault == "headers_lost":
            headers = {}
        marker = {} if fault == "no_marker" or profile in ("ietf", "ucp") else {"Idempotent-Replayed": "true"}
        return self.reply(status, headers | echo | marker, body)

    def effect(self, key):
        effects[key] = effects.get(key, 0) + 1

    def run(self, key):
        body = json.loads(self.body or b"{}")
        with lock:
            runs[key] = runs.get(key, 0) + 1
        time.sleep(body.get("pause", 20) / 1000)
        if "throw" in body:
            raise Thrown(body["throw"])
        with lock:
            self.effect(key)
            number = next(ids)
        answer = json.dumps({"id": number, "item": body.get("item")}).encode()
        return body.get("status", 201), {"Location": f"/orders/{number}"}, answer.ljust(body.get("bytes", 0))

    def refuse(self, what, echo={}):
        status = 400 if what == MALFORMED else PROFILES[profile][what]
        code, text = CODES[profile][what], "The Idempotency-Key cannot be used for this request."
        if fault == "wrong_status" and what == MISMATCH:
            status = 418
        body = {"ietf": {"type": "about:blank", "title": text, "status": status},
                "stripe": {"error": {"type": code, "message": text}},
                "acp": {"type": "invalid_request", "code": code, "message": text},
                "ucp": {"code": code, "content": text}}[profile]
        kind = "application/problem+json" if profile == "ietf" else "application/json"
        if fault == "wrong_form":
            body, kind = {"detail": text}, "text/plain"
        later = {"Retry-After": "1"} if what == IN_FLIGHT and fault != "no_retry_after" else {}
        return self.reply(status, echo | later | {"Content-Type": kind}, json.dumps(body).encode())

    def reply(self, status, headers, body):
        try:
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def server_bind(self):  # without HTTPServer's look-up of a name, which can take seconds
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", int(os.environ.get("PORT", 0))), App)
print(server.server_port, flush=True)
server.serve_forever()
