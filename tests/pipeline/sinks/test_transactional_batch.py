"""`TransactionalBatch`: messages and fence in one transaction, on both brokers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.transactional_batch import OutgoingMessage, TransactionalBatch
from tests.compatibility.topic_contents import read_committed, read_to_end


def fence(batch_id: int, checkpoint: str = "first", ends: tuple[str, ...] = ()) -> Fence:
    return Fence(job="job", checkpoint=checkpoint, batch_id=batch_id, ends=ends)


def values(bootstrap: str, topic: str) -> list[bytes]:
    return [message.value() for message in read_committed(bootstrap, topic)]


def test_batch_is_written_once_with_its_fence(either: str, name: str) -> None:
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as batch:
        assert batch.applied() is None
        assert batch.write([OutgoingMessage(value=b"a"), OutgoingMessage(value=b"b")], fence(0)) == 2
        assert batch.write([OutgoingMessage(value=b"again")], fence(0)) == 0
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as batch:
        assert batch.applied() == fence(0)
        assert batch.write([OutgoingMessage(value=b"again")], fence(0)) == 0
        assert batch.write([OutgoingMessage(value=b"c")], fence(0, checkpoint="second")) == 1
    assert values(either, name) == [b"a", b"b", b"c"]


def test_message_arrives_as_it_was(bootstrap: str, name: str) -> None:
    sent = OutgoingMessage(
        value=b"v", key=b"k", headers=(("a", b"1"), ("b", None)), partition=0, timestamp_ms=1_700_000_000_000
    )
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=bootstrap)) as batch:
        batch.write([sent, OutgoingMessage(value=None, topic=f"{name}-other")], fence(0))
    (message,) = read_to_end(bootstrap, name)
    assert (message.key(), message.value(), message.headers()) == (b"k", b"v", [("a", b"1"), ("b", None)])
    assert message.timestamp()[1] == 1_700_000_000_000
    assert values(bootstrap, f"{name}-other") == [None]


def test_messages_that_fail_midway_leave_nothing(either: str, name: str) -> None:
    def messages() -> Iterator[OutgoingMessage]:
        yield OutgoingMessage(value=b"half")
        raise RuntimeError("lost")

    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as batch:
        with pytest.raises(RuntimeError, match="lost"):
            batch.write(messages(), fence(0))
        assert batch.applied() is None
        assert batch.write([OutgoingMessage(value=b"whole")], fence(0)) == 1
    assert values(either, name) == [b"whole"]


def test_fence_larger_than_the_metadata_of_a_group_is_kept(either: str, name: str) -> None:
    large = fence(3, ends=(random.Random(1).randbytes(10_000).hex(),))
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as batch:
        batch.write([], large)
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as batch:
        assert batch.applied() == large
        batch.clear()
        assert batch.applied() is None


def test_second_instance_fences_the_first(either: str, name: str) -> None:
    first = TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)
    first.write([OutgoingMessage(value=b"a")], fence(0))
    with closing(TransactionalBatch(f"{name}.writer", topic=name, bootstrap=either)) as second:
        second.write([OutgoingMessage(value=b"b")], fence(1))
        with pytest.raises(SinkUnavailable, match="another process"):
            first.write([OutgoingMessage(value=b"zombie")], fence(2))
        first.close()
    assert values(either, name) == [b"a", b"b"]


def test_topic_is_created_with_its_config(bootstrap: str, name: str) -> None:
    config = {"max.message.bytes": "5000000"}
    with closing(
        TransactionalBatch(f"{name}.writer", topic=name, bootstrap=bootstrap, topic_config=config)
    ) as batch:
        assert batch.target.message_bytes_max == 5_000_000
        batch.write([OutgoingMessage(value=bytes(4_900_000))], fence(0))
    assert [len(each) for each in values(bootstrap, name)] == [4_900_000]


def test_clearing_leaves_the_fences_of_names_with_the_same_prefix(bootstrap: str, name: str) -> None:
    """A topic `clicks` and a topic `clicks.1` of the same job."""
    with (
        closing(TransactionalBatch(f"{name}:clicks", topic=name, bootstrap=bootstrap)) as cleared,
        closing(TransactionalBatch(f"{name}:clicks.1", topic=name, bootstrap=bootstrap)) as other,
    ):
        cleared.write([], fence(4, ends=(random.Random(1).randbytes(10_000).hex(),)))
        other.write([], fence(5))
        cleared.clear()
        assert cleared.applied() is None
        other.close()
        assert other.applied() == fence(5)
