#!/usr/bin/python3
"""From RabbitMQ into the ledger, each message once. Any number of them may run; each may be killed at any moment.

The message's mark in idem's inbox and its effect are one transaction, and the broker hears of it after the commit. A consumer that dies before
is sent the message again, as is the next one; whoever finds the mark does nothing.
libpq's environment names the database, AMQP_URL the broker.
"""
import json, sys, time
import pika, psycopg
import broker


def handle(db, delivery, properties, body):
    message = json.loads(body)
    with db.transaction():
        new, = db.execute("SELECT idem.idem_consume('ledger', %s)", (properties.message_id,)).fetchone()
        if new:
            db.execute("INSERT INTO ledger (account, number, amount) VALUES (%(account)s, %(number)s, %(amount)s)", message)
    if not new:
        print("seen before:", properties.message_id, "redelivered" if delivery.redelivered else "", flush=True)


def main():
    with psycopg.connect(autocommit=True) as db, pika.BlockingConnection(broker.parameters()) as connection:
        channel = connection.channel()
        broker.declare(channel)
        channel.basic_qos(prefetch_count=50)

        def received(channel, delivery, properties, body):
            handle(db, delivery, properties, body)
            channel.basic_ack(delivery.delivery_tag)

        for name in broker.names():
            channel.basic_consume(name, received)
        channel.start_consuming()


# A message that fails takes the connection with it: the broker then has all that were not acknowledged back in their places. To reject
# this one alone would let the next of its key overtake it.
while True:
    try:
        main()
    except (psycopg.Error, pika.exceptions.AMQPError, ConnectionError) as error:
        print("consumer:", repr(error), file=sys.stderr, flush=True)
        time.sleep(1)
