"""aiokafka: the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.structs import OffsetAndMetadata

from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write_values


def run(test: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(test, PATIENCE_S * 2))


async def read(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [await asyncio.wait_for(consumer.getone(), PATIENCE_S) for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_consumed_records_equal_the_produced_ones_with_every_codec(
    bootstrap: str, topic: str, codec: str | None
) -> None:
    records = [
        {
            "key": b"key %d" % (n % 5) if n % 3 else None,
            "value": b"value %d " % n * 10 if n % 3 != 1 else None,
            "headers": [("n", str(n).encode())],
            "timestamp_ms": 1_700_000_000_000 + n,
        }
        for n in range(500)
    ]

    async def write_and_read() -> list[ConsumerRecord]:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20
        ) as producer:
            pending = [await producer.send(topic, **record) for record in records]
            offsets = [(await delivered).offset for delivered in pending]
        assert offsets == list(range(500))
        return await read(bootstrap, topic, 500)

    came_back = run(write_and_read())

    assert [
        {"key": r.key, "value": r.value, "headers": list(r.headers), "timestamp_ms": r.timestamp}
        for r in came_back
    ] == records
    assert len(read_to_end(bootstrap, topic)) == 500


def test_idempotent_producer_writes_each_record_once_and_in_order(bootstrap: str, topic: str) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            await asyncio.gather(*[await producer.send(topic, str(n).encode()) for n in range(3000)])

    run(write())

    assert [int(m.value()) for m in read_to_end(bootstrap, topic)] == list(range(3000))


def test_members_share_a_group_and_the_next_one_resumes_at_their_commits(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    topic = create_topic(partitions=4)
    write_values(bootstrap, topic, (str(n).encode() for n in range(200)))

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    async def share() -> None:
        async with member() as one, member() as two:
            seen: set[int] = set()
            while len(seen) < 200 or len(one.assignment()) != 2 or len(two.assignment()) != 2:
                for consumer in (one, two):
                    batches = await consumer.getmany(timeout_ms=100)
                    seen.update(int(record.value) for records in batches.values() for record in records)
            assert one.assignment() | two.assignment() == {TopicPartition(topic, n) for n in range(4)}
            end = await one.end_offsets([TopicPartition(topic, n) for n in range(4)])
            for consumer in (one, two):
                await consumer.commit({partition: end[partition] for partition in consumer.assignment()})

    async def resume() -> bytes:
        async with member() as consumer:
            record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            assert record.value is not None
            return bytes(record.value)

    run(share())
    write_values(bootstrap, topic, [b"later"])
    assert run(resume()) == b"later"


def test_offsets_are_found_by_time_and_committed_with_metadata(bootstrap: str, topic: str, name: str) -> None:
    async def check() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for n in range(10):
                await producer.send(topic, b"v", timestamp_ms=1_600_000_000_000 + n * 1000)
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False
        ) as consumer:
            consumer.assign([partition])
            found = await consumer.offsets_for_times({partition: 1_600_000_004_500})
            assert (found[partition].offset, found[partition].timestamp) == (5, 1_600_000_005_000)
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            await consumer.commit({partition: OffsetAndMetadata(3, "three")})
            assert await consumer.committed(partition) == 3

    run(check())


def test_topics_groups_and_records_are_administered(bootstrap: str, name: str) -> None:
    async def check() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
            await admin.create_partitions({name: NewPartitions(total_count=2)})
            [described] = await admin.describe_topics([name])
            assert [partition["partition"] for partition in described["partitions"]] == [0, 1]
            await _write_and_commit(bootstrap, name)
            partition = TopicPartition(name, 0)
            deleted = await admin.delete_records({partition: RecordsToDelete(before_offset=1)})
            assert deleted == {partition: 1}
            assert (await admin.list_consumer_group_offsets(name))[partition].offset == 2
            assert name in {group[0] for group in await admin.list_consumer_groups()}
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    run(check())


async def _write_and_commit(bootstrap: str, name: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in (b"a", b"b"):
            await producer.send_and_wait(name, value, partition=0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=name) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        await consumer.commit({TopicPartition(name, 0): 2})
