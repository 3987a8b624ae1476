"""kafka-python 3: a client written in Python alone, with its own encoder, group protocol and assignors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import TopicAlreadyExistsError

from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write_values

PATIENCE_MS = PATIENCE_S * 1000


@pytest.fixture
def kafka_python_admin(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def read(bootstrap: str, topic: str, count: int, **settings: Any) -> list[Any]:
    """The first `count` records of the topic's only partition; fewer when no more come."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_MS, **settings
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [record for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_consumed_records_equal_the_produced_ones_with_every_codec(
    bootstrap: str, topic: str, codec: str | None
) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20)
    sent = [
        producer.send(
            topic,
            key=b"key %d" % (n % 5) if n % 3 else None,
            value=b"value %d " % n * 10 if n % 3 != 1 else None,
            headers=[("n", str(n).encode())],
            timestamp_ms=1_700_000_000_000 + n,
        )
        for n in range(500)
    ]
    producer.flush(timeout=PATIENCE_S)
    producer.close()

    assert [future.get(timeout=PATIENCE_S).offset for future in sent] == list(range(500))
    came_back = read(bootstrap, topic, 500, check_crcs=True)
    assert len(came_back) == 500
    for n, record in enumerate(came_back):
        assert record.offset == n
        assert record.key == (b"key %d" % (n % 5) if n % 3 else None)
        assert record.value == (b"value %d " % n * 10 if n % 3 != 1 else None)
        assert [tuple(header) for header in record.headers] == [("n", str(n).encode())]
        assert record.timestamp == 1_700_000_000_000 + n
    assert len(read_to_end(bootstrap, topic)) == 500


def test_records_of_librdkafka_are_consumed(bootstrap: str, topic: str) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        write_values(
            bootstrap, topic, (f"{codec} {n}".encode() * 5 for n in range(100)), compression_type=codec
        )

    values = [record.value for record in read(bootstrap, topic, 400)]

    assert values == [
        f"{codec} {n}".encode() * 5 for codec in ("gzip", "snappy", "lz4", "zstd") for n in range(100)
    ]


def test_idempotent_producer_writes_each_record_once_and_in_order(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, batch_size=500)
    for n in range(3000):
        producer.send(topic, value=str(n).encode())
    producer.flush(timeout=PATIENCE_S)
    producer.close()

    assert [int(m.value()) for m in read_to_end(bootstrap, topic)] == list(range(3000))


def test_two_members_consume_every_record_and_resume_at_their_commits(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    topic = create_topic(partitions=4)
    write_values(bootstrap, topic, (str(n).encode() for n in range(200)))
    seen: set[int] = set()
    owned: dict[int, set[int]] = {}
    everything_read = threading.Event()
    both_committed = threading.Barrier(2)

    def member(number: int) -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )
        while not everything_read.is_set():
            # With short polls this client sometimes drops the response with its assignment, on either broker.
            for records in consumer.poll(timeout_ms=1_000).values():
                seen.update(int(record.value) for record in records)
            owned[number] = {tp.partition for tp in consumer.assignment()}
            shares = list(owned.values())
            if len(seen) == 200 and len(shares) == 2 and all(shares) and not set.intersection(*shares):
                everything_read.set()
        consumer.commit()
        # The first member that leaves triggers a rebalance, which must not overlap the commit of the other.
        both_committed.wait(PATIENCE_S)
        consumer.close()

    threads = [threading.Thread(target=member, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert everything_read.is_set(), f"read {len(seen)} records, shares {owned}"
    assert set.union(*owned.values()) == {0, 1, 2, 3}

    write_values(bootstrap, topic, [b"later"])
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_MS,
    )
    assert next(consumer).value == b"later"
    consumer.close()


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for n in range(10):
        producer.send(topic, value=b"v", timestamp_ms=1_600_000_000_000 + n * 1000)
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        found = consumer.offsets_for_times({partition: 1_600_000_004_500})[partition]
        assert (found.offset, found.timestamp) == (5, 1_600_000_005_000)
        assert consumer.offsets_for_times({partition: 1_700_000_000_000})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
    finally:
        consumer.close()


def test_commits_carry_metadata(bootstrap: str, topic: str, name: str) -> None:
    partition = TopicPartition(topic, 0)
    for committing in (True, False):
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False)
        consumer.assign([partition])
        if committing:
            consumer.commit({partition: OffsetAndMetadata(3, "three", -1)})
        else:
            found = consumer.committed(partition, metadata=True)
            assert (found.offset, found.metadata) == (3, "three")
        consumer.close()


def test_topics_are_administered(kafka_python_admin: Any, bootstrap: str, name: str) -> None:
    kafka_python_admin.create_topics({name: {"num_partitions": 2, "configs": {"retention.ms": "3600000"}}})
    with pytest.raises(TopicAlreadyExistsError):
        kafka_python_admin.create_topics({name: {"num_partitions": 2}})
    kafka_python_admin.create_partitions({name: 3})
    [described] = kafka_python_admin.describe_topics([name])
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]

    def setting(key: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        return str(
            kafka_python_admin.describe_configs([resource], config_filter="all")["topic"][name][key]["value"]
        )

    assert setting("retention.ms") == "3600000"
    changes = {
        "retention.ms": (AlterConfigOp.SET, "7200000"),
        "cleanup.policy": (AlterConfigOp.APPEND, "compact"),
    }
    kafka_python_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, changes)])
    assert setting("retention.ms") == "7200000"
    assert set(setting("cleanup.policy").split(",")) == {"delete", "compact"}

    assert name in kafka_python_admin.list_topics()
    kafka_python_admin.delete_topics([name])
    assert name not in kafka_python_admin.list_topics()


def test_records_and_offsets_are_administered(
    kafka_python_admin: Any, bootstrap: str, topic: str, name: str
) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(20)))
    partition = TopicPartition(topic, 0)

    kafka_python_admin.delete_records({partition: 5})
    earliest = kafka_python_admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})
    assert earliest[partition].offset == 5

    kafka_python_admin.alter_group_offsets(name, {partition: OffsetAndMetadata(12, "by hand", -1)})
    assert kafka_python_admin.list_group_offsets({name: None})[name][partition].offset == 12
    reset = kafka_python_admin.reset_group_offsets(name, {partition: OffsetSpec.EARLIEST})
    assert reset[partition]["offset"] == 5

    assert name in {group["group_id"] for group in kafka_python_admin.list_groups()}
    assert kafka_python_admin.describe_groups([name])[name]["group_state"] == "Empty"
    kafka_python_admin.delete_groups([name])
    assert name not in {group["group_id"] for group in kafka_python_admin.list_groups()}


def test_cluster_is_described(kafka_python_admin: Any, bootstrap: str) -> None:
    described = kafka_python_admin.describe_cluster()

    assert [f"{broker['host']}:{broker['port']}" for broker in described["brokers"]] == [bootstrap]
    assert described["controller_id"] == described["brokers"][0]["broker_id"]
