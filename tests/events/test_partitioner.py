from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.events.partitioner import murmur2, partition_of
from headrace.kafka.cluster import Cluster

TIMEOUT_S = 30.0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # The values of the Java client's own test, signed as Java has them.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_the_java_client(content: bytes, expected: int) -> None:
    assert murmur2(content) == expected % 2**32


@given(st.binary(max_size=50), st.integers(1, 100))
def test_partition_exists(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


def test_other_clients_choose_the_same_partition(bootstrap: str, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=7)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "partitioner": "murmur2_random"})
    chosen: dict[bytes | None, int | None] = {}
    keys = [f"key-{'x' * (number % 5)}{number}".encode() for number in range(50)]
    for key in keys:
        producer.produce(
            topic,
            b"",
            key,
            on_delivery=lambda _, message: chosen.update({message.key(): message.partition()}),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert chosen == {key: partition_of(key, 7) for key in keys}
    assert len(set(chosen.values())) == 7
