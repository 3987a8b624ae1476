"""Dead letters of a target: the record, the reason, and what a redrive needs."""

from __future__ import annotations

import asyncio

from headrace.kafka.cluster import Cluster
from headrace.queue.dead_letters import DeadLetters
from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.letters import BYTES_CONFIG, Letters
from headrace.webhooks.outgoing.message import REDRIVEN_FOR_HEADER, REDRIVEN_ID_HEADER, Outgoing
from headrace.webhooks.outgoing.target import Target
from tests.webhooks.outgoing.conftest import target_of


def letter_of(target: Target, cluster: Cluster, value: bytes) -> None:
    message = Outgoing(
        message_id="msg_1",
        origin=MessageId(target.topic, 0, 7),
        timestamp_ms=0,
        key=b"k",
        value=value,
        headers=[("own", b"1"), (REDRIVEN_ID_HEADER, b"older")],
        attempts=6,
    )

    async def write() -> None:
        letters = Letters(target, cluster)
        await letters.write(message, "HTTP 422, after 6 attempts")
        await asyncio.to_thread(letters.close)

    asyncio.run(write())


def test_letter_has_the_record_the_reason_and_the_id(cluster: Cluster, topic: str) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    letter_of(target, cluster, b"value")
    (letter,) = DeadLetters(target.group, bootstrap=cluster.bootstrap).read()
    assert letter.original == MessageId(topic, 0, 7)
    assert (letter.key, letter.value, letter.reason) == (b"k", b"value", "HTTP 422, after 6 attempts")
    assert letter.delivery_count == 6
    assert letter.can_be_redriven
    assert letter.headers == [
        ("own", b"1"),
        (REDRIVEN_FOR_HEADER, target.name.encode()),
        (REDRIVEN_ID_HEADER, b"msg_1"),
    ]


def test_letter_of_the_largest_record_fits_and_is_kept_for_ever(cluster: Cluster, topic: str) -> None:
    target = target_of(topic, "http://127.0.0.1:8080/")
    limit = int(cluster.configs("topic", topic)[BYTES_CONFIG].value or 0)
    letter_of(target, cluster, bytes(limit - 200))
    (letter,) = DeadLetters(target.group, bootstrap=cluster.bootstrap).read()
    assert len(letter.value or b"") == limit - 200
    assert cluster.configs("topic", letter.id.topic)["retention.ms"].value == "-1"
