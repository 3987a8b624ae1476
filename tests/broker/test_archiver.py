"""Archive storage as clients and operators see it: read, list, delete, configure, and an archive that is away."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from confluent_kafka import Consumer, TopicPartition
from fsspec.implementations.memory import MemoryFileSystem

from headrace.broker.embedded import Broker
from headrace.log.archive.object_names import base_offset_of
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually, metrics
from tests.broker.requests import NOW_MS, batch, create_topic, delete_topic, fetch, produce, read_all
from tests.broker.share_requests import WAIT_MS, ShareMember, heartbeat, set_group_configs
from tests.broker.transaction_requests import TransactionalProducer, committed_values

TOPIC = "history"
RECORDS = 80
ARCHIVED: dict[str, Any] = {
    "remote_storage_enable": "true",
    "segment_bytes": "1000",
    "local_retention_bytes": "0",
    "retention_ms": "-1",
    "file_delete_delay_ms": "0",
}
ALL = [b"%d" % number for number in range(RECORDS)]
# How many batches of one record fit into segment.bytes.
SEGMENT_RECORDS = 14
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -5, -6
SET = 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(root: Path) -> dict[str, Any]:
    return {
        "archive_address": str(root),
        "archive_interval_ms": 20,
        "archive_retry_ms_max": 40,
        "archive_chunk_bytes": 1024,
        "housekeeping_interval_ms": 20,
        "metrics_port": 0,
    }


@pytest.fixture
def broker(start_broker: StartBroker, tmp_path: Path, settings: dict[str, Any]) -> Broker:
    return start_broker(tmp_path / "data", **settings)


@pytest.fixture
def wire(broker: Broker, connect: Connect) -> Wire:
    return connect(broker)


def fill(wire: Wire, topic: str = TOPIC) -> None:
    for number in range(RECORDS):
        assert produce(wire, topic, batch(b"%d" % number)).error_code == 0


def place(wire: Wire, timestamp: int, topic: str = TOPIC) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),))
    (response,) = wire.request(request, version=11).topics[0].partitions
    assert response.error_code == 0, response
    offset: int = response.offset
    return offset


def wait_until_archived(wire: Wire, topic: str = TOPIC) -> int:
    """All closed segments are in the archive only; the first offset that is local."""
    end = place(wire, LATEST, topic)
    eventually(
        lambda: end - place(wire, EARLIEST_LOCAL, topic) <= SEGMENT_RECORDS,
        "closed segments are archived and their local copies deleted",
    )
    local_start = place(wire, EARLIEST_LOCAL, topic)
    assert place(wire, LATEST_TIERED, topic) == local_start - 1
    return local_start


@pytest.fixture
def local_start(wire: Wire) -> int:
    """First local offset of a topic whose older records are in the archive."""
    create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    return wait_until_archived(wire)


def objects(root: Path, suffix: str = "") -> list[Path]:
    # Unlike a glob, a walk passes over folders that the broker removes meanwhile.
    return sorted(
        Path(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(suffix)
    )


def alter(wire: Wire, topic: str = TOPIC, **configs: str) -> int:
    wanted = tuple(
        AlterableConfig(name=name.replace("_", "."), config_operation=SET, value=value)
        for name, value in configs.items()
    )
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=wanted)
    (response,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    code: int = response.error_code
    return code


def creation_code(wire: Wire, name: str, **configs: str) -> int:
    wanted = tuple(
        CreatableTopicConfig(name=config.replace("_", "."), value=value) for config, value in configs.items()
    )
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=wanted)
    (response,) = wire.request(CreateTopicsRequest(topics=(topic,))).topics
    code: int = response.error_code
    return code


def values(wire: Wire, offset: int = 0, topic: str = TOPIC) -> list[bytes | None]:
    return [record.value for record in read_all(wire, topic, offset=offset)]


# --- reading ---


def test_confluent_consumer_reads_from_the_start_across_archive_and_disk(
    broker: Broker, local_start: int
) -> None:
    assert local_start > 10
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.offset(), message.value()))
    consumer.close()
    assert found == list(enumerate(ALL))


def test_start_of_the_log_is_that_of_the_archive(wire: Wire, local_start: int) -> None:
    assert place(wire, EARLIEST) == 0
    assert fetch(wire, TOPIC, 3).log_start_offset == 0
    assert place(wire, EARLIEST_LOCAL) == local_start
    assert place(wire, LATEST_TIERED) == local_start - 1
    assert place(wire, EARLIEST_PENDING_UPLOAD) == local_start


def test_offsets_of_a_topic_without_an_archive(wire: Wire) -> None:
    create_topic(wire, "local", retention_ms="-1")
    produce(wire, "local", batch(b"x"))
    assert place(wire, EARLIEST_LOCAL, "local") == 0
    assert place(wire, LATEST_TIERED, "local") == -1
    assert place(wire, EARLIEST_PENDING_UPLOAD, "local") == -1


def test_offsets_of_a_topic_whose_archive_is_empty(wire: Wire) -> None:
    create_topic(wire, TOPIC, **ARCHIVED)
    produce(wire, TOPIC, batch(b"x"))
    assert place(wire, LATEST_TIERED) == -1
    assert place(wire, EARLIEST_PENDING_UPLOAD) == 0


def test_time_is_looked_up_in_the_archive(wire: Wire, local_start: int) -> None:
    assert place(wire, NOW_MS) == 0
    assert place(wire, NOW_MS + 1) == -1


def test_archive_is_read_after_a_restart(
    start_broker: StartBroker, connect: Connect, tmp_path: Path, settings: dict[str, Any]
) -> None:
    first = start_broker(tmp_path / "data", **settings)
    wire = connect(first)
    create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    wait_until_archived(wire)
    assert values(wire) == ALL
    assert list((tmp_path / "data" / "archive-cache").iterdir())
    first.stop()
    second = connect(start_broker(tmp_path / "data", **settings))
    assert not (tmp_path / "data" / "archive-cache").exists()
    assert values(second) == ALL


def test_topic_that_has_segments_already_can_be_archived(wire: Wire) -> None:
    create_topic(wire, TOPIC, **{**ARCHIVED, "remote_storage_enable": "false"})
    fill(wire)
    assert alter(wire, remote_storage_enable="true") == 0
    wait_until_archived(wire)
    assert values(wire) == ALL


def test_local_copies_stay_for_their_time(wire: Wire, broker: Broker) -> None:
    create_topic(wire, TOPIC, **{**ARCHIVED, "local_retention_bytes": "-2"})
    fill(wire)
    eventually(lambda: place(wire, LATEST_TIERED) > 10, "it is archived")
    eventually(lambda: metrics(broker)["headrace_archive_waiting_segments"] == 0, "all of it is")
    assert place(wire, EARLIEST_LOCAL) == 0
    assert metrics(broker)["headrace_archive_local_copies_removed_total"] == 0


def test_readers_of_committed_data_skip_what_was_aborted_in_the_archive(wire: Wire) -> None:
    create_topic(wire, TOPIC, **ARCHIVED)
    producer = TransactionalProducer(wire, "archiving")
    assert producer.init().error_code == 0
    kept = []
    for number in range(20):
        producer.write(TOPIC, b"%d" % number)
        if number % 3:
            producer.abort()
        else:
            producer.commit()
            kept.append(b"%d" % number)
    wait_until_archived(wire)
    assert committed_values(wire, TOPIC) == kept


def test_queue_delivers_from_the_archive(wire: Wire) -> None:
    topic_id = create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    wait_until_archived(wire)
    assert set_group_configs(wire, "workers", share_auto_offset_reset="earliest") is ErrorCode.NONE
    heartbeat(wire, "workers", "member", 0, TOPIC)
    member = ShareMember(wire, "workers", topic_id, member="member")
    assert member.offsets_and_values(max_wait_ms=WAIT_MS) == dict(enumerate(ALL))


# --- what goes ---


def test_deleted_records_are_deleted_from_the_archive(wire: Wire, root: Path, local_start: int) -> None:
    before = len(objects(root, ".log"))
    partition = DeleteRecordsPartition(partition_index=0, offset=local_start - 1)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=TOPIC, partitions=(partition,)),), timeout_ms=1000
    )
    assert wire.request(request).topics[0].partitions[0].low_watermark == local_start - 1
    assert fetch(wire, TOPIC, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    eventually(lambda: len(objects(root, ".log")) == 1 < before, "only the segment with the start is left")
    assert values(wire, local_start - 1) == ALL[local_start - 1 :]


def test_retention_of_the_whole_deletes_from_the_archive(
    wire: Wire, root: Path, broker: Broker, local_start: int
) -> None:
    size = sum(path.stat().st_size for path in objects(root, ".log"))
    assert alter(wire, retention_bytes=str(size // 2)) == 0
    eventually(
        lambda: sum(path.stat().st_size for path in objects(root, ".log")) < size * 0.7,
        "old ones are deleted",
    )
    start = place(wire, EARLIEST)
    assert 0 < start < local_start
    assert values(wire, start) == ALL[start:]
    eventually(lambda: metrics(broker)["headrace_archive_deleted_segments_total"] > 0, "it is counted")


def test_deleted_topic_leaves_an_empty_archive(wire: Wire, root: Path, local_start: int) -> None:
    assert objects(root)
    delete_topic(wire, TOPIC)
    eventually(lambda: not objects(root), "its archive is deleted")


def test_archive_of_a_topic_deleted_during_an_outage_is_deleted_later(
    start_broker: StartBroker, connect: Connect, tmp_path: Path, root: Path, settings: dict[str, Any]
) -> None:
    first = start_broker(tmp_path / "data", **settings)
    wire = connect(first)
    create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    wait_until_archived(wire)
    root.rename(tmp_path / "away")
    delete_topic(wire, TOPIC)
    first.stop()
    second = start_broker(tmp_path / "data", **settings)
    eventually(lambda: metrics(second)["headrace_archive_failures_total"] > 0, "it tries")
    (tmp_path / "away").rename(root)
    eventually(lambda: not objects(root), "its archive is deleted")


# --- configs ---


def test_configs_that_cannot_be_archived_are_rejected(wire: Wire) -> None:
    for configs in (
        {"cleanup_policy": "compact"},
        {"cleanup_policy": "compact,delete"},
        {"retention_ms": "1000", "local_retention_ms": "1001"},
        {"retention_ms": "1000", "local_retention_ms": "-1"},
        {"retention_bytes": "1000", "local_retention_bytes": "1001"},
        {"local_retention_ms": "-3"},
    ):
        assert creation_code(wire, "bad", remote_storage_enable="true", **configs) == ErrorCode.INVALID_CONFIG
    good = {"retention_ms": "1000", "local_retention_ms": "1000", "local_retention_bytes": "-1"}
    assert creation_code(wire, "good", remote_storage_enable="true", **good) == 0
    assert alter(wire, "good", cleanup_policy="compact") == ErrorCode.INVALID_CONFIG
    assert alter(wire, "good", local_retention_ms="1001") == ErrorCode.INVALID_CONFIG


def test_without_an_address_nothing_can_be_archived(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker())
    assert creation_code(wire, "t", remote_storage_enable="true") == ErrorCode.INVALID_CONFIG
    assert creation_code(wire, "t", local_retention_ms="5") == 0


def test_switching_off_needs_consent_to_delete(wire: Wire, root: Path, local_start: int) -> None:
    assert alter(wire, remote_storage_enable="false") == ErrorCode.INVALID_CONFIG
    assert values(wire) == ALL
    assert alter(wire, remote_storage_enable="false", remote_log_delete_on_disable="true") == 0
    eventually(lambda: not objects(root), "its archive is deleted")
    assert place(wire, EARLIEST) == local_start
    assert values(wire, local_start) == ALL[local_start:]
    assert alter(wire, remote_storage_enable="true") == 0
    fill(wire)
    wait_until_archived(wire)
    assert values(wire, local_start) == ALL[local_start:] + ALL


# --- an archive that is away, slow or damaged ---


def test_unavailable_archive_is_reported_and_loses_nothing(
    broker: Broker, wire: Wire, root: Path, tmp_path: Path
) -> None:
    create_topic(wire, TOPIC, **ARCHIVED)
    root.rename(tmp_path / "away")
    fill(wire)
    eventually(lambda: metrics(broker)["headrace_archive_failures_total"] > 1, "it tries again and again")
    seen = metrics(broker)
    assert seen["headrace_archive_reachable"] == 0
    assert seen["headrace_archive_waiting_segments"] > 2
    assert seen["headrace_archive_waiting_bytes"] > 2000
    assert place(wire, EARLIEST_LOCAL) == 0
    assert values(wire) == ALL
    (tmp_path / "away").rename(root)
    wait_until_archived(wire)
    seen = metrics(broker)
    assert seen["headrace_archive_waiting_segments"] == 0
    assert seen["headrace_archive_reachable"] == 1
    assert seen["headrace_archive_last_success_timestamp_seconds"] > 1_700_000_000
    assert seen["headrace_archive_segments"] == seen["headrace_archive_copied_segments_total"] > 2
    assert values(wire) == ALL


def test_fetch_from_an_unavailable_archive_fails_and_others_continue(
    wire: Wire, root: Path, tmp_path: Path, local_start: int
) -> None:
    root.rename(tmp_path / "away")
    response = fetch(wire, TOPIC, 0)
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert response.log_start_offset == 0
    assert values(wire, local_start) == ALL[local_start:]
    (tmp_path / "away").rename(root)
    assert values(wire) == ALL


def test_fetch_of_a_damaged_archive_fails_and_is_counted(
    broker: Broker, wire: Wire, root: Path, local_start: int
) -> None:
    damaged = objects(root, ".log")[1]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:500] + b"?" + content[501:])
    behind = base_offset_of(objects(root, ".log")[2].name)
    assert behind is not None
    offset = base_offset_of(damaged.name)
    assert offset is not None
    assert fetch(wire, TOPIC, offset).error_code == ErrorCode.CORRUPT_MESSAGE
    assert metrics(broker)["headrace_archive_corrupt_reads_total"] == 1
    assert values(wire, behind) == ALL[behind:]


class GatedFileSystem(MemoryFileSystem):
    """Reads wait at a gate while it is closed."""

    protocol = "gated"
    gate = threading.Event()
    waiting = threading.Event()
    store: dict[str, Any] = {}  # noqa: RUF012 - of fsspec's making
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix("gated://"))
        return stripped

    def cat_file(self, *args: Any, **options: Any) -> bytes:
        self.waiting.set()
        assert self.gate.wait(30), "the test never opened the gate"
        content: bytes = super().cat_file(*args, **options)
        return content


@pytest.fixture
def gated() -> Iterator[type[GatedFileSystem]]:
    fsspec.register_implementation("gated", GatedFileSystem, clobber=True)
    GatedFileSystem.gate.set()
    yield GatedFileSystem
    GatedFileSystem.gate.set()


def test_slow_archive_does_not_delay_other_requests(
    start_broker: StartBroker,
    connect: Connect,
    settings: dict[str, Any],
    gated: type[GatedFileSystem],
) -> None:
    broker = start_broker(**{**settings, "archive_address": "gated://archive", "archive_read_threads": 2})
    wire = connect(broker)
    create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    local_start = wait_until_archived(wire)
    gated.gate.clear()
    gated.waiting.clear()
    responses: list[list[bytes | None]] = []
    readers = [threading.Thread(target=lambda: responses.append(values(connect(broker)))) for _ in range(3)]
    for reader in readers:
        reader.start()
    assert gated.waiting.wait(30)
    # More readers than threads wait for the archive now; all that is local is as quick as ever.
    assert values(wire, local_start) == ALL[local_start:]
    create_topic(wire, "other", retention_ms="-1")
    produce(wire, "other", batch(b"x"))
    assert values(wire, topic="other") == [b"x"]
    assert responses == []
    gated.gate.set()
    for reader in readers:
        reader.join()
    assert responses == [ALL] * 3


def test_records_deleted_during_a_copy_are_deleted_from_the_archive(
    start_broker: StartBroker,
    connect: Connect,
    settings: dict[str, Any],
    gated: type[GatedFileSystem],
) -> None:
    broker = start_broker(**{**settings, "archive_address": "gated://deleted-during-a-copy"})
    wire = connect(broker)
    create_topic(wire, TOPIC, **ARCHIVED)
    fill(wire)
    local_start = wait_until_archived(wire)
    gated.gate.clear()
    gated.waiting.clear()
    fill(wire)
    assert gated.waiting.wait(30), "a copy is in flight: it reads back what it wrote"
    partition = DeleteRecordsPartition(partition_index=0, offset=local_start)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=TOPIC, partitions=(partition,)),), timeout_ms=1000
    )
    assert wire.request(request).topics[0].partitions[0].low_watermark == local_start
    gated.gate.set()

    def first_archived() -> int:
        names = [name for name in list(gated.store) if "deleted-during-a-copy" in name]
        return min(base_offset_of(name) or 0 for name in names)

    eventually(lambda: first_archived() >= local_start, "no object of a deleted segment is left")


def test_fsspec_archive_of_an_unknown_kind_stops_the_start(start_broker: StartBroker) -> None:
    with pytest.raises(Exception, match="nonsense://x can't be used"):
        start_broker(archive_address="nonsense://x")
