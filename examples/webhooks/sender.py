"""Plays five senders of webhooks, each with its format, to several endpoints of one shop. A delivery goes to any of them, again and again until one answers
2xx. Every third webhook is delivered once more: every other of these at the same moment, the rest later. Forged ones are among them.

usage: sender.py WEBHOOKS URL ...
"""
import base64
import collections
import hashlib
import hmac
import http.client
import json
import random
import sys
import threading
import time
import urllib.parse

SOURCES = ["standard", "stripe", "github", "slack", "shopify"]
SECRETS = {source: f"secret of {source}".encode() for source in SOURCES}
SECRETS |= {"standard": base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "stripe": b"whsec_secret_of_stripe"}

counts = collections.Counter()
lock = threading.Lock()


def count(what):
    with lock:
        counts[what] += 1


def headers(source, event, body):
    """A retry is signed anew."""
    at = str(int(time.time()))
    mac = lambda before: hmac.new(SECRETS[source], before.encode() + body, hashlib.sha256)
    base64_of = lambda before: base64.b64encode(mac(before).digest()).decode()
    return {
        "standard": lambda: {"webhook-id": event, "webhook-timestamp": at, "webhook-signature": "v1," + base64_of(f"{event}.{at}.")},
        "stripe": lambda: {"Stripe-Signature": f"t={at},v1=" + mac(f"{at}.").hexdigest()},
        "github": lambda: {"X-GitHub-Delivery": event, "X-Hub-Signature-256": "sha256=" + mac("").hexdigest()},
        "slack": lambda: {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": "v0=" + mac(f"v0:{at}:").hexdigest()},
        "shopify": lambda: {"X-Shopify-Webhook-Id": event, "X-Shopify-Hmac-Sha256": base64_of("")},
    }[source]()


def post(url, source, fields, body):
    """The status and the text of the answer; 0 when there is none."""
    try:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=30)
        try:
            connection.request("POST", f"/webhooks/{source}", body, {"Content-Type": "application/json"} | fields)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return 0, ""


def deliver(number, urls):
    source, event = SOURCES[number % len(SOURCES)], f"evt_{number}"
    body = json.dumps({"id": event, "event_id": event, "amount": number}).encode()
    while True:
        status, text = post(random.choice(urls), source, headers(source, event, body), body)
        if 200 <= status < 300:
            return count(text)
        if 400 <= status < 500:
            sys.exit(f"{event} of {source} was refused: {status} {text}")
        count("retried")
        time.sleep(random.uniform(0.02, 0.2))


def forge(number, urls):
    source, event = SOURCES[number % len(SOURCES)], f"evt_{number}"
    fields = headers(source, event, b'{"amount": 1}')
    if 400 <= post(random.choice(urls), source, fields, json.dumps({"id": event, "amount": 1000000}).encode())[0] < 500:
        count("refused")


def send(number, urls):
    deliveries = 2 if number % 3 == 0 else 1
    at_once = [threading.Thread(target=deliver, args=(number, urls)) for _ in range(deliveries)]
    for thread in at_once:
        thread.start()
        if number % 6 != 0:
            thread.join()
    for thread in at_once:
        thread.join()
    if number % 20 == 0:
        forge(number, urls)


def main():
    webhooks, urls = int(sys.argv[1]), sys.argv[2:]
    numbers = iter(range(1, webhooks + 1))

    def work():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            send(number, urls)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(", ".join(f"{counts[what]} {what}" for what in ("accepted", "duplicate", "refused", "retried")))


main()
