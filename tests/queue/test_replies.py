"""The worker's side of replies: what is written, and what happens if it can't be."""

from __future__ import annotations

import logging

import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.settings import client_config
from headrace.queue.errors import MessageNotStored
from headrace.queue.outbox import Outbox
from headrace.queue.partition_reader import read_partition
from headrace.queue.replies import ERROR_BYTES_MAX, REPLIES_CONFIG, REPLIES_TOPIC, Replies, reply_partitions
from headrace.queue.reply_to import ERROR_HEADER, ReplyTo
from tests.queue.conftest import TIMEOUT_S


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=TIMEOUT_S)


def test_topic_of_replies_is_created_once_and_keeps_little(cluster: Cluster) -> None:
    assert reply_partitions(cluster) == reply_partitions(cluster) == len(cluster.partitions(REPLIES_TOPIC))
    retention = cluster.configs("topic", REPLIES_TOPIC)["retention.ms"]
    assert retention.value == REPLIES_CONFIG["retention.ms"]


def test_reply_and_error_are_in_the_partition_of_the_client(
    cluster: Cluster, bootstrap: str, name: str
) -> None:
    number = reply_partitions(cluster) - 1
    (place,) = [each for each in cluster.partitions(REPLIES_TOPIC) if each.number == number]
    first = cluster.latest([place])[place]
    outbox = Outbox(client_config(bootstrap, None), TIMEOUT_S)
    replies = Replies(outbox)
    to = ReplyTo(name, number, 0)
    replies.send(to, b"17")
    replies.send_error(to, "x" * 2 * ERROR_BYTES_MAX)
    outbox.close()
    end = cluster.latest([place])[place]
    found = [
        each
        for each in read_partition(cluster.client_config(), REPLIES_TOPIC, number, first, end)
        if each.key() == name.encode()
    ]
    assert [each.value() for each in found] == [b"17", b""]
    assert dict(found[1].headers() or []) == {ERROR_HEADER: b"x" * ERROR_BYTES_MAX}


def test_reply_to_a_partition_that_does_not_exist_fails(
    cluster: Cluster, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The header of a request may say anything."""
    to = ReplyTo("client/1", reply_partitions(cluster) + 5, 0)
    outbox = Outbox(client_config(bootstrap, None), TIMEOUT_S)
    replies = Replies(outbox)
    with pytest.raises(MessageNotStored):
        replies.send(to, b"17")
    with caplog.at_level(logging.WARNING, "headrace.queue"):
        replies.send_error(to, "broken")
    assert "error reply to request client/1 was not stored" in caplog.text
    outbox.close()
