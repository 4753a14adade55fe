"""What the applications answer: never the same twice, so that a repetition of the work cannot be taken for a replay."""

import gzip
import json
import os


def answer(kind, number):
    """Status, headers and body."""
    chance = os.urandom(40).hex()
    odd = f'{{"z": "{chance}",\n  "number":{number}, "a" : [1.0, 1e2, "\\u00e9é"], "z2": {{}} }}'.encode()
    location = {"Location": f"/orders/{number}"}
    match kind:
        case "gzip":
            return 201, {"Content-Type": "application/json", "Content-Encoding": "gzip", **location}, gzip.compress(odd)
        case "pdf":
            return 200, {"Content-Type": "application/pdf"}, b"%PDF-1.7\n\x00\xff\xfe" + os.urandom(3000) + b"\n%%EOF\n"
        case "empty":
            return 204, location, b""
    return 201, {"Content-Type": "application/json; charset=utf-8", **location}, odd


def order(body):
    """Number, kind and slowness in seconds of a request."""
    wanted = json.loads(body)
    return wanted["number"], wanted.get("kind", "json"), wanted.get("slow", 0)


FAILING = {
    "deadlock": "DO $$ BEGIN RAISE 'two requests met' USING ERRCODE = '40P01'; END $$",
    "broken": "SELECT 1 / 0",
    "lost": "SELECT pg_terminate_backend(pg_backend_pid())",
}
