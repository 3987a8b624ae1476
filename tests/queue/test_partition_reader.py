"""A partition is read between two offsets, also if the last of them have no record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.queue.partition_reader import read_partition
from tests.queue.conftest import TIMEOUT_S, Send


def read(bootstrap: str, topic: str, first: int, end: int) -> Iterator[bytes | str | None]:
    config = {"bootstrap.servers": bootstrap}
    return (message.value() for message in read_partition(config, topic, 0, first, end))


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [(0, 3, [b"a", b"b", b"c"]), (1, 2, [b"b"]), (2, 2, [])],
)
def test_records_between_the_offsets_are_read(
    bootstrap: str, topic: str, send: Send, first: int, end: int, expected: list[bytes]
) -> None:
    send(topic, "a", "b", "c")
    assert list(read(bootstrap, topic, first, end)) == expected


def test_markers_of_transactions_have_no_record_and_aborted_records_are_skipped(
    bootstrap: str, topic: str, name: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    for value, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0
        end(TIMEOUT_S)
    assert list(read(bootstrap, topic, 0, 4)) == [b"kept"]
