"""Where a new target starts: at what is written after it was added."""

from __future__ import annotations

import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.webhooks.outgoing.origin import commit_start
from tests.webhooks.outgoing.conftest import Write, committed, target_of

URL = "http://127.0.0.1:8080/"


def test_target_starts_at_the_end_or_at_the_first_record(cluster: Cluster, topic: str, write: Write) -> None:
    write(topic, b"a", b"b")
    new, old = target_of(topic, URL), target_of(topic, URL)
    commit_start(cluster, new, "now")
    commit_start(cluster, old, "earliest")
    assert committed(cluster, new) == {0: 2, 1: 0}
    assert committed(cluster, old) == {0: 0, 1: 0}


def test_missing_topic_is_an_error(cluster: Cluster, topic: str) -> None:
    with pytest.raises(RequestFailed, match="there is no topic"):
        commit_start(cluster, target_of(f"{topic}-missing", URL), "now")


def test_queue_keeps_its_own_position(cluster: Cluster, topic: str) -> None:
    target = target_of("", URL, queue=topic)
    assert commit_start(cluster, target, "now") == {}
    assert committed(cluster, target) == {}
