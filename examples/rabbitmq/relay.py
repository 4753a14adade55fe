#!/usr/bin/python3
"""From idem's outbox to RabbitMQ. Any number of them may run; each may be killed at any moment.

A batch is taken under a lease, published, and acknowledged to the outbox when the broker has confirmed that it has it on disk. A relay
that dies in between leaves a batch that is published again when its lease is over: nothing is lost, some things come twice.
libpq's environment names the database, AMQP_URL the broker.
"""
import json, queue, select, sys, threading, time
import pika, psycopg
import broker

LEASE = "5 s"  # how long a batch of a dead relay has to wait; a living one is done in a fraction of it


class Publisher:
    """A connection in confirm mode. Its events are handled in a thread of its own; batches come from the outside."""

    def __init__(self):
        self.events, self.waiting, self.tag = queue.Queue(), {}, 0
        self.connection = pika.SelectConnection(
            broker.parameters(), on_open_callback=lambda connection: connection.channel(on_open_callback=self.opened),
            on_open_error_callback=self.lost, on_close_callback=self.lost)
        threading.Thread(target=self.connection.ioloop.start, daemon=True).start()
        self.expect("open")

    def opened(self, channel):
        self.channel = channel
        channel.add_on_close_callback(self.lost)
        channel.add_on_return_callback(lambda _, __, properties, ___: self.returned.add(properties.message_id))
        channel.confirm_delivery(self.confirmed, lambda _: self.events.put("open"))

    def lost(self, _, reason):
        self.events.put(ConnectionError(reason))
        self.connection.ioloop.stop()

    def expect(self, what):
        event = self.events.get()
        if event != what:
            raise event

    def confirmed(self, frame):
        answer = frame.method
        for tag in [tag for tag in self.waiting if tag <= answer.delivery_tag] if answer.multiple else [answer.delivery_tag]:
            message = self.waiting.pop(tag)
            # What could not be put into any queue is returned first and confirmed then.
            if isinstance(answer, pika.spec.Basic.Ack) and str(message) not in self.returned:
                self.delivered.append(message)
        if not self.waiting:
            self.events.put("confirmed")

    def publish(self, batch):
        """Returns the ids of the messages that the broker has for good."""
        self.delivered, self.returned = [], set()
        self.connection.ioloop.add_callback_threadsafe(lambda: self.send(batch))
        self.expect("confirmed")
        return self.delivered

    def send(self, batch):
        for message, key, payload in batch:
            self.tag += 1
            self.waiting[self.tag] = message
            self.channel.basic_publish("", broker.queue_of(key or str(message)), json.dumps(payload), pika.BasicProperties(
                message_id=str(message), delivery_mode=2, content_type="application/json"), mandatory=True)


def relay(db):
    publisher, woken = Publisher(), []
    db.add_notify_handler(woken.append)
    db.execute("LISTEN idem_outbox")
    while True:
        taken = db.execute("SELECT id, key, payload, fence FROM idem.idem_outbox_take(%s, 200, lease => %s)",
                           (broker.TOPIC, LEASE)).fetchall()
        if not taken:
            # Woken by a commit that publishes something; but a lease that runs out wakes nobody.
            if not woken:
                select.select([db], [], [], 1)
            woken.clear()
            continue
        fence = taken[0][3]
        delivered = publisher.publish([row[:3] for row in taken])
        # A stale fence, of a relay that was slower than its lease, acknowledges nothing: another has them by now.
        db.execute("SELECT idem.idem_outbox_ack(%s, %s)", (delivered, fence))
        refused = [row[0] for row in taken if row[0] not in delivered]
        if refused:
            db.execute("SELECT idem.idem_outbox_nack(%s, %s)", (refused, fence))


def main():
    with psycopg.connect(autocommit=True) as db:
        with pika.BlockingConnection(broker.parameters()) as connection:
            broker.declare(connection.channel())
        relay(db)


while True:
    try:
        main()
    except (psycopg.OperationalError, pika.exceptions.AMQPError, ConnectionError) as error:  # the one or the other is down
        print("relay:", repr(error), file=sys.stderr, flush=True)
        time.sleep(1)
