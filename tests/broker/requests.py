"""Short requests for tests, and the content of their responses."""

from __future__ import annotations

import uuid
from typing import Any

from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from headrace.protocol.types import Buffer
from headrace.records.batch import iterate_headers
from headrace.records.compression import Codec
from headrace.records.record import Record, decode_records, encode_batch
from headrace.testing.wire import Wire

# Newest versions that name topics by name: most tests need no ids.
PRODUCE_BY_NAME = 12
FETCH_BY_NAME = 12

NOW_MS = 1_700_000_000_000


def new_name(prefix: str = "t") -> str:
    """A name that nothing else in this run has."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def batch(
    *values: bytes,
    key: bytes | None = None,
    timestamp_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch as a producer sends it."""
    records = [
        Record(offset=number, timestamp_ms=timestamp_ms, key=key, value=value)
        for number, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def create_topic(wire: Wire, name: str, *, partitions: int = 1, **configs: str) -> uuid.UUID:
    """Make a topic (`cleanup_policy="compact"` sets cleanup.policy); its id."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=tuple(
            CreatableTopicConfig(name=config.replace("_", "."), value=value)
            for config, value in configs.items()
        ),
    )
    (made,) = wire.request(CreateTopicsRequest(topics=(wanted,))).topics
    assert made.error_code == 0, made
    topic_id: uuid.UUID = made.topic_id
    return topic_id


def delete_topic(wire: Wire, name: str) -> None:
    (deleted,) = wire.request(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),))).responses
    assert deleted.error_code == 0, deleted


def produce_request(
    topic: str | uuid.UUID, records: Buffer | None, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    data = (PartitionProduceData(index=partition, records=records),)
    named = (
        TopicProduceData(name=topic, partition_data=data)
        if isinstance(topic, str)
        else TopicProduceData(topic_id=topic, partition_data=data)
    )
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(named,))


def produce(
    wire: Wire,
    topic: str | uuid.UUID,
    records: Buffer | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int | None = None,
) -> PartitionProduceResponse:
    """Send one partition's bytes; the response for that partition."""
    if version is None:
        version = PRODUCE_BY_NAME if isinstance(topic, str) else 13
    request = produce_request(topic, records, partition=partition, acks=acks)
    response: PartitionProduceResponse = only_partition(wire.request(request, version=version))
    return response


def only_partition(response: Any) -> Any:
    """The one partition of a Produce or Fetch response."""
    (topic,) = response.responses
    (partition,) = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    return partition


def fetch_request(
    topic: str | uuid.UUID,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition_max_bytes: int = 1 << 20,
    **others: Any,
) -> FetchRequest:
    wanted = (
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes),
    )
    named = (
        FetchTopic(topic=topic, partitions=wanted)
        if isinstance(topic, str)
        else FetchTopic(topic_id=topic, partitions=wanted)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=(named,), **others
    )


def fetch(wire: Wire, topic: str | uuid.UUID, offset: int = 0, **options: Any) -> PartitionData:
    version = FETCH_BY_NAME if isinstance(topic, str) else 18
    response: PartitionData = only_partition(
        wire.request(fetch_request(topic, offset, **options), version=version)
    )
    return response


def records_of(data: PartitionData | Buffer) -> list[Record]:
    """All records of the batches in a response, also those before the requested offset."""
    content = bytes((data.records if isinstance(data, PartitionData) else data) or b"")
    return [
        record
        for position, header in iterate_headers(content)
        for record in decode_records(content[position : position + header.size_bytes], bytes_max=1 << 26)
    ]


def values_of(data: PartitionData | Buffer) -> list[bytes | None]:
    return [record.value for record in records_of(data)]


def read_all(wire: Wire, topic: str, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Every record from an offset to the end, read as a consumer does."""
    found: list[Record] = []
    while True:
        response = fetch(wire, topic, offset, partition=partition)
        assert response.error_code == 0, response.error_code
        more = [record for record in records_of(response) if record.offset >= offset]
        if not more:
            assert offset == response.high_watermark, f"nothing at {offset} of {response.high_watermark}"
            return found
        found += more
        offset = more[-1].offset + 1


def end_offset(wire: Wire, topic: str, *, partition: int = 0) -> int:
    wanted = ListOffsetsTopic(
        name=topic, partitions=(ListOffsetsPartition(partition_index=partition, timestamp=-1),)
    )
    response = wire.request(ListOffsetsRequest(replica_id=-1, topics=(wanted,)), version=4)
    (partition_response,) = response.topics[0].partitions
    assert partition_response.error_code == 0
    offset: int = partition_response.offset
    return offset


def new_producer_id(wire: Wire) -> int:
    response = wire.request(InitProducerIdRequest())
    assert response.error_code == 0
    producer_id: int = response.producer_id
    return producer_id
