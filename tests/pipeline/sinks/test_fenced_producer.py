"""A producer whose fence is part of its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.sinks.fenced_producer import CLIENT_BATCH_BYTES, FencedProducer, Target
from tests.compatibility.topic_contents import read_committed

Open = Callable[[], FencedProducer]


@pytest.fixture
def open_producer(bootstrap: str, topic: str) -> Iterator[Open]:
    """Opens the same writer's name each time."""
    target = Target(topic=topic, bootstrap=bootstrap, message_bytes_max=1_000_000)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(FencedProducer(f"{topic}.writer", target)))


def values(bootstrap: str, topic: str) -> list[bytes]:
    return [message.value() for message in read_committed(bootstrap, topic)]


def test_fence_is_kept_with_the_records_of_its_transaction(
    open_producer: Open, bootstrap: str, topic: str
) -> None:
    first = open_producer()
    assert first.kept is None
    first.begin(0, "fence 0")
    first.produce(topic, b"a", b"key", [("h", b"1")])
    first.produce_many(topic, [{"value": b"b"}, {"value": b"c", "key": b"key"}], 6)
    first.commit()
    assert first.kept == open_producer().kept == "fence 0"
    assert values(bootstrap, topic) == [b"a", b"b", b"c"]


def test_aborted_transaction_leaves_the_fence_before_it(
    open_producer: Open, bootstrap: str, topic: str
) -> None:
    producer = open_producer()
    producer.begin(0, "fence 0")
    producer.commit()
    producer.begin(1, "fence 1")
    producer.produce(topic, b"aborted", None)
    producer.abort()
    assert producer.kept == open_producer().kept == "fence 0"
    assert values(bootstrap, topic) == []


@pytest.mark.parametrize("step", ["begin", "commit"])
def test_earlier_owner_of_the_name_is_fenced(
    open_producer: Open, bootstrap: str, topic: str, step: str
) -> None:
    fenced = open_producer()
    if step == "commit":
        fenced.begin(0, "fenced")
        fenced.produce(topic, b"fenced", None)
    owner = open_producer()
    with pytest.raises(SinkUnavailable, match="another process has opened it"):
        fenced.commit() if step == "commit" else fenced.begin(0, "fenced")
    assert owner.kept is None
    assert values(bootstrap, topic) == []


def test_record_larger_than_the_limit_of_the_client_is_an_error(open_producer: Open, topic: str) -> None:
    producer = open_producer()
    producer.begin(0, "fence 0")
    too_large = bytes(2 * CLIENT_BATCH_BYTES)
    with pytest.raises(SinkUnavailable, match=r"can't write: .*too large"):
        producer.produce(topic, too_large, None)
    with pytest.raises(SinkUnavailable, match=r"can't write: .*too large"):
        producer.produce_many(topic, [{"value": b"fits"}, {"value": too_large}], len(too_large))


def test_unreachable_broker_is_an_error_with_the_name_of_the_writer() -> None:
    target = Target(topic="t", bootstrap="127.0.0.1:1", message_bytes_max=1_000, timeout_s=0.2)
    with pytest.raises(SinkUnavailable, match="my-writer can't be opened"):
        FencedProducer("my-writer", target)


@pytest.mark.parametrize(
    ("message_bytes_max", "message", "batch"),
    [
        (20_000, CLIENT_BATCH_BYTES, 20_000),
        (CLIENT_BATCH_BYTES, CLIENT_BATCH_BYTES, CLIENT_BATCH_BYTES),
        (5_000_000, 5_000_000, CLIENT_BATCH_BYTES),
    ],
)
def test_batch_fits_the_topic_and_a_message_may_fill_it(
    message_bytes_max: int, message: int, batch: int
) -> None:
    config = Target(topic="t", bootstrap="b", message_bytes_max=message_bytes_max).producer_config()
    assert (config["message.max.bytes"], config["batch.size"]) == (message, batch)
