"""confluent-kafka (librdkafka): producing and consuming."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write, write_values

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", CODECS)
def test_consumed_records_equal_the_produced_ones_with_every_codec(
    bootstrap: str, topic: str, codec: str
) -> None:
    records = [
        {"key": f"key-{n % 7}", "value": f"value {n} " * 20, "timestamp": 1_700_000_000_000 + n}
        for n in range(2000)
    ]
    write(bootstrap, topic, records, compression_type=codec)

    read = read_to_end(bootstrap, topic, check_crcs=True)

    assert [m.offset() for m in read] == list(range(2000))
    assert [(m.key().decode(), m.value().decode(), m.timestamp()[1]) for m in read] == [
        (record["key"], record["value"], record["timestamp"]) for record in records
    ]


def test_empty_and_null_keys_values_and_headers_are_distinguished(bootstrap: str, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"key": None, "value": b"no key"},
        {"key": b"", "value": b""},
        {"key": b"deleted", "value": None},
        {
            "key": b"k",
            "value": b"v",
            "headers": [("one", b"1"), ("one", b"again"), ("null", None), ("empty", b"")],
        },
        {"key": bytes(range(256)), "value": bytes(reversed(range(256)))},
    ]
    write(bootstrap, topic, records)

    read = read_to_end(bootstrap, topic)

    assert [(m.key(), m.value(), m.headers()) for m in read] == [
        (record["key"], record["value"], record.get("headers")) for record in records
    ]


def test_delivery_report_has_the_offset_of_the_record(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=4)
    delivered = write(bootstrap, topic, ({"key": str(n), "value": str(n)} for n in range(400)))

    read = read_to_end(bootstrap, topic)

    assert {m.partition() for m in read} == {0, 1, 2, 3}
    assert sorted((m.partition(), m.offset(), m.value()) for m in delivered) == sorted(
        (m.partition(), m.offset(), m.value()) for m in read
    )


def test_records_of_a_key_stay_in_order_in_one_partition(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    write(bootstrap, topic, ({"key": f"k{n % 10}", "value": str(n)} for n in range(1000)))

    read = read_to_end(bootstrap, topic)

    for key in (f"k{n}".encode() for n in range(10)):
        of_key = [m for m in read if m.key() == key]
        assert len({m.partition() for m in of_key}) == 1
        assert [int(m.value()) for m in of_key] == sorted(int(m.value()) for m in of_key)
        assert len(of_key) == 100


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acks_is_supported(bootstrap: str, topic: str, acks: str) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(500)), acks=acks)

    deadline_s = time.monotonic() + PATIENCE_S
    while len(read := read_to_end(bootstrap, topic)) < 500 and time.monotonic() < deadline_s:
        pass  # with acks=0 the producer does not wait for the broker

    assert [m.value() for m in read] == [str(n).encode() for n in range(500)]


def test_idempotent_producer_writes_each_record_once_and_in_order(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=2)
    values = [str(n).encode() for n in range(20_000)]
    write(
        bootstrap, topic, ({"value": v, "key": v} for v in values), enable_idempotence=True, batch_size=2000
    )

    read = read_to_end(bootstrap, topic)

    assert sorted(m.value() for m in read) == sorted(values)
    for partition in (0, 1):
        numbers = [int(m.value()) for m in read if m.partition() == partition]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_record_just_below_the_default_size_limit_is_consumed_whole(
    bootstrap: str, topic: str, codec: str
) -> None:
    value = bytes(n * n % 251 for n in range(1000)) * 990
    write_values(bootstrap, topic, [value], compression_type=codec)

    assert [m.value() for m in read_to_end(bootstrap, topic)] == [value]


def test_record_above_the_size_limit_is_rejected_until_the_limit_is_raised(
    bootstrap: str, create_topic: CreateTopic
) -> None:
    big = b"x" * 3_000_000
    topic = create_topic()
    rejected: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 5_000_000})
    producer.produce(topic, value=big, on_delivery=lambda error, _: rejected.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [error.code() for error in rejected] == [KafkaError.MSG_SIZE_TOO_LARGE]

    roomy = create_topic(suffix="-roomy", max_message_bytes="5000000")
    write_values(bootstrap, roomy, [big], message_max_bytes=5_000_000)
    # One record is larger than the limit of a fetch for a partition: it is returned nevertheless.
    read = read_to_end(bootstrap, roomy, max_partition_fetch_bytes=100_000)
    assert [m.value() for m in read] == [big]


def test_timestamp_type_of_the_topic_is_applied(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic()
    stamped = create_topic(suffix="-stamped", message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    for destination in (topic, stamped):
        write(bootstrap, destination, [{"value": b"v", "timestamp": before_ms - 86_400_000}])
    after_ms = int(time.time() * 1000)

    [created] = read_to_end(bootstrap, topic)
    [appended] = read_to_end(bootstrap, stamped)

    assert created.timestamp() == (TIMESTAMP_CREATE_TIME, before_ms - 86_400_000)
    kind, timestamp_ms = appended.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms <= timestamp_ms <= after_ms


def test_first_record_creates_an_unknown_topic(bootstrap: str, name: str) -> None:
    write_values(bootstrap, name, [b"first"])

    assert [m.value() for m in read_to_end(bootstrap, name)] == [b"first"]


def test_offsets_for_times_finds_the_first_record_at_or_after_a_time(
    bootstrap: str, topic: str, name: str
) -> None:
    write(
        bootstrap, topic, ({"value": str(n), "timestamp": 1_600_000_000_000 + n * 1000} for n in range(100))
    )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    try:

        def offset_at(timestamp_ms: int) -> int:
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], timeout=PATIENCE_S)
            assert found.error is None
            return int(found.offset)

        assert offset_at(1_600_000_000_000) == 0
        assert offset_at(1_600_000_042_000) == 42
        assert offset_at(1_600_000_041_001) == 42
        assert offset_at(1_000_000_000_000) == 0
        assert offset_at(1_600_000_099_001) == -1  # no record is that late: librdkafka returns the end
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S) == (0, 100)
    finally:
        consumer.close()


def test_offset_out_of_range_is_an_error_without_a_reset_policy(
    bootstrap: str, topic: str, name: str
) -> None:
    write_values(bootstrap, topic, [b"one"])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()


def test_waiting_fetch_returns_when_a_record_is_appended(bootstrap: str, topic: str, name: str) -> None:
    # The fetch may wait a minute. If the record had to wait for its end, poll() would return nothing.
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "fetch.wait.max.ms": 60_000,
            "socket.timeout.ms": 90_000,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(1) is None
        write_values(bootstrap, topic, [b"news"])
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == b"news"
    finally:
        consumer.close()


def test_unknown_topic_is_an_error_without_auto_creation(bootstrap: str, name: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "allow.auto.create.topics": False})
    try:
        consumer.subscribe([name])
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    finally:
        consumer.close()
