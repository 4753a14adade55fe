"""Messages, outbox and inbox: docs/outbox.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..call import Call, Json, Row, argument, json_argument, parsed, scalar
from ..interval import Interval, interval_text


@dataclass(frozen=True)
class Message:
    """A message that was taken. All messages of a take have one fence."""

    id: int
    topic: str
    key: str | None
    payload: Json
    headers: Json
    attempt: int
    fence: int


def publish(
    topic: str,
    payload: Json,
    *,
    key: str | None = None,
    headers: Json = None,
    delay: Interval | None = None,
    dedup_id: str | None = None,
) -> Call[int | None]:
    """Publishes a message with this transaction. Its id; None when `dedup_id` was published before and its id was removed."""
    return Call(
        "idem_publish",
        "*",
        (
            argument("topic", "text", topic),
            json_argument("payload", payload),
            argument("key", "text", key),
            argument("headers", "jsonb", headers),
            argument("delay", "interval", delay),
            argument("dedup_id", "text", dedup_id),
        ),
        scalar,
    )


def publish_many(topic: str, messages: Sequence[Mapping[str, Json]]) -> Call[list[int | None]]:
    """Publishes many messages of one topic, with one NOTIFY. A message has the members payload (required), key, headers, delay
    and dedup_id, as the arguments of `publish`. Their ids, in the order of the messages."""
    objects = [
        {name: interval_text(name, value) if name == "delay" else value for name, value in message.items()} for message in messages
    ]
    return Call(
        "idem_publish_many", "*", (argument("topic", "text", topic), json_argument("messages", objects)), lambda rows: list(rows[0][0])
    )


def take(topic: str, *, max_messages: int | None = None, lease: Interval | None = None) -> Call[list[Message]]:
    """The next messages of a topic, oldest first, under a lease. Commit, then send them, then `ack`."""

    def read(rows: Sequence[Row]) -> list[Message]:
        return [
            Message(id, topic, key, parsed(payload), parsed(headers), attempt, fence)
            for id, topic, key, payload, headers, attempt, fence in rows
        ]

    return Call(
        "idem_outbox_take",
        "id, topic, key, CAST(payload AS text), CAST(headers AS text), attempt, fence",
        (
            argument("topic", "text", topic),
            argument("max_messages", "int", max_messages),
            argument("lease", "interval", lease),
        ),
        read,
    )


def ack(ids: Sequence[int], fence: int) -> Call[int]:
    """Delivered. How many of these messages the lease still held."""
    return Call("idem_outbox_ack", "*", (argument("ids", "bigint[]", ids), argument("fence", "bigint", fence)), scalar)


def nack(ids: Sequence[int], fence: int, *, retry_after: Interval | None = None) -> Call[int]:
    """Not delivered. The messages rest for `retry_after`; None: longer with each failure."""
    return Call(
        "idem_outbox_nack",
        "*",
        (
            argument("ids", "bigint[]", ids),
            argument("fence", "bigint", fence),
            argument("retry_after", "interval", retry_after),
        ),
        scalar,
    )


def outbox_renew(ids: Sequence[int], fence: int, *, lease: Interval | None = None) -> Call[int]:
    """The lease of the messages lasts from now on. How many of them it still held."""
    return Call(
        "idem_outbox_renew",
        "*",
        (argument("ids", "bigint[]", ids), argument("fence", "bigint", fence), argument("lease", "interval", lease)),
        scalar,
    )


def consume(consumer: str, message_id: str, *, ttl: Interval | None = None, scope: str | None = None) -> Call[bool]:
    """True: new to this consumer, do the work in this transaction. False: worked on before."""
    return Call(
        "idem_consume",
        "*",
        (
            argument("consumer", "text", consumer),
            argument("message_id", "text", message_id),
            argument("ttl", "interval", ttl),
            argument("scope", "text", scope),
        ),
        scalar,
    )
