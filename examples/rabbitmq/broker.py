"""What relay and consumer have to agree on: the queues, and which key goes to which."""
import os, zlib
import pika

TOPIC, QUEUES = "movements", 4


def parameters():
    return pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/%2F"))


def names():
    return [f"{TOPIC}.{number}" for number in range(QUEUES)]


def queue_of(key):
    """All messages of a key are in one queue: a queue is what RabbitMQ keeps in order."""
    return names()[zlib.crc32(key.encode()) % QUEUES]


def declare(channel):
    for name in names():
        # Durable: it survives the broker. Single active consumer: with two consumers on one queue, the second message of a key could be
        # worked on before the first; so one has the queue, and another takes over, from the first message that was not
        # acknowledged, when that one is gone.
        channel.queue_declare(name, durable=True, arguments={"x-single-active-consumer": True})
