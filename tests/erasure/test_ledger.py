"""The ledger: durable requests, one process at a time, and no key of an erased person."""

from __future__ import annotations

import time
import uuid

import pytest

from headrace.erasure import (
    LEDGER_TOPIC,
    BadErasure,
    Erasure,
    ErasureInterrupted,
    Subject,
    chosen,
    digest_of,
    read_ledger,
)
from headrace.erasure.ledger import Ledger, Tombstone
from headrace.erasure.progress import TopicProgress, TopicState
from headrace.kafka.cluster import Cluster
from tests.erasure.conftest import read


def erasure(key: str, state: TopicState = TopicState.PENDING) -> Erasure:
    subject, erasure_id = Subject(key=key), uuid.uuid4().hex[:12]
    return Erasure(
        id=erasure_id,
        subject=subject,
        digest=digest_of(erasure_id, subject),
        requested_ms=1,
        topics=(TopicProgress(topic="t", state=state),),
    )


def test_request_is_read_by_the_next_process(cluster: Cluster) -> None:
    request = erasure("ada")
    ledger = Ledger(cluster)
    ledger.write(request)
    ledger.close()
    assert Ledger(cluster).get(request.id) == request
    assert chosen(read_ledger(cluster), request.id) == request


def test_tombstones_are_written_with_the_progress(cluster: Cluster, topic: str) -> None:
    ledger = Ledger(cluster)
    ledger.write(erasure("ada"), [Tombstone(topic=topic, partition=0, key=b"ada")])
    assert read(cluster, topic, isolation="read_committed") == [(b"ada", None)]
    ledger.close()


def test_second_process_fences_the_first(cluster: Cluster) -> None:
    first, second = Ledger(cluster), Ledger(cluster)
    with pytest.raises(ErasureInterrupted, match="another process works on the erasures now"):
        first.write(erasure("ada"))
    request = erasure("bob")
    second.write(request)
    assert chosen(read_ledger(cluster), request.id) == request


def test_key_of_a_complete_erasure_leaves_the_ledger(cluster: Cluster) -> None:
    secret = uuid.uuid4().hex
    ledger = Ledger(cluster)
    open_one = erasure(secret)
    ledger.write(open_one)
    ledger.write(open_one.with_topic(TopicProgress(topic="t", state=TopicState.COMPLETE)).closed(5))
    ledger.close()
    deadline_s = time.monotonic() + 60
    while any(secret.encode() in (value or b"") for _, value in read(cluster, LEDGER_TOPIC)):
        assert time.monotonic() < deadline_s, "the key is still in the ledger"
        time.sleep(0.1)
    assert chosen(read_ledger(cluster), open_one.id).subject is None


def test_unknown_erasure_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(BadErasure, match="there is no erasure e9"):
        Ledger(cluster).get("e9")
