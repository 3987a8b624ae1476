"""Background work continues: on a full disk, after a partition that fails, and after an unexpected exception."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.broker.server import Server
from headrace.log.filesystem import Buffer, DiskFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.failing_filesystem import FailingFileSystem, FileOperation
from headrace.testing.wire import Wire
from tests.broker.observing import eventually, metrics
from tests.broker.requests import batch, create_topic, end_offset, fetch, produce, values_of
from tests.broker.share_requests import ACCEPT, WAIT_MS, ShareMember, group_offset, set_group_configs
from tests.faults.faulty_broker import broker_on
from tests.faults.small_disk import SmallDisk

QUICK = {"housekeeping_interval_ms": 50, "checkpoint_interval_ms": 100}
# The timestamps of the batches that tests send are years old.
EXPIRING = {"retention.ms": "1000", "file.delete.delay.ms": "1"}


def is_expired(wire: Wire, topic: str) -> bool:
    return fetch(wire, topic).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("segment_bytes", ["2000", "1000000"], ids=["closed-segments", "active-only"])
def test_retention_frees_a_full_disk(tmp_path: Path, segment_bytes: str) -> None:
    disk = SmallDisk(tmp_path, capacity_bytes=1_000_000)
    with broker_on(disk, tmp_path / "data", reserve_bytes=10_000) as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", segment_bytes=segment_bytes, retention_ms="1000", file_delete_delay_ms="1")
        create_topic(wire, "kept", retention_ms="-1")
        for _ in range(10):
            assert produce(wire, "t", batch(b"x" * 1500)).error_code == 0
        disk.fill()
        assert produce(wire, "kept", batch(b"no room")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "the reserve had room for the checkpoints"
    disk.fill()
    with (
        broker_on(disk, tmp_path / "data", reserve_bytes=10_000, **QUICK) as server,
        Wire(server.bootstrap) as wire,
    ):
        eventually(lambda: produce(wire, "kept", batch(b"room")).error_code == 0, "room by retention")
        eventually(lambda: is_expired(wire, "t"), "the last segment, too")
        assert end_offset(wire, "t") == 10
        assert values_of(fetch(wire, "kept")) == [b"room"]


def test_start_after_a_crash_on_a_full_disk_uses_the_reserve(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity_bytes=1_000_000)
    with broker_on(disk, tmp_path / "data", reserve_bytes=10_000) as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", segment_bytes="2000", retention_ms="1000", file_delete_delay_ms="1")
        for _ in range(10):
            produce(wire, "t", batch(b"x" * 1500))
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    disk.fill()
    with broker_on(disk, tmp_path / "data", **QUICK) as server, Wire(server.bootstrap) as wire:
        eventually(lambda: produce(wire, "t", batch(b"room")).error_code == 0, "room by retention")


def test_stop_that_has_no_room_for_checkpoints_still_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(tmp_path, capacity_bytes=1_000_000)
    with broker_on(disk, tmp_path / "data", reserve_bytes=0) as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t")
        produce(wire, "t", batch(b"x"))
        disk.fill()
    assert "checkpoints not written" in caplog.text
    disk.capacity_bytes = 1_000_000
    with broker_on(disk, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert values_of(fetch(wire, "t")) == [b"x"]


def expire(server: Server, *names: str) -> None:
    topics = server.parts.topics
    for name in names:
        topic = topics.get(name)
        assert topic is not None
        server.parts.runtime.loop.call_soon_threadsafe(topics.alter_configs, topic, EXPIRING)


@pytest.mark.parametrize("operation", ["rename", "create", "remove"])
def test_failure_of_a_partition_does_not_stop_the_others(tmp_path: Path, operation: FileOperation) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data", **QUICK) as server, Wire(server.bootstrap) as wire:
        for name in ("bad", "good"):
            create_topic(wire, name, retention_ms="-1")
            produce(wire, name, batch(b"old"))
        files.fail(operation, "*/bad-0/*", times=None)
        expire(server, "bad", "good")
        eventually(lambda: is_expired(wire, "good"), "retention of the partition behind the bad one")
        folder = tmp_path / "data" / "good-0"
        eventually(lambda: not any(folder.glob("*.deleted")), "its files to be removed")
        files.heal()
        folder = tmp_path / "data" / "bad-0"
        eventually(lambda: is_expired(wire, "bad"), "retention of the bad one once it can")
        eventually(lambda: not any(folder.glob("*.deleted")), "its files to be removed")


class Stumbling(DiskFileSystem):
    """Raises what no caller expects, as a bug would, for the files of one folder."""

    def __init__(self) -> None:
        self.folder = ""
        self.stumbled = 0

    def modified_ms(self, path: str) -> int:
        self._stumble(path)
        return super().modified_ms(path)

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        self._stumble(str(Path(f"/proc/self/fd/{fd}").readlink()))
        super().write(fd, parts, position)

    def _stumble(self, path: str) -> None:
        if self.folder and f"/{self.folder}/" in path:
            self.stumbled += 1
            raise KeyError(path)


def test_unexpected_exception_ends_no_chore_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Stumbling()
    with broker_on(files, tmp_path / "data", **QUICK) as server, Wire(server.bootstrap) as wire:
        for name in ("bad", "good"):
            create_topic(wire, name, retention_ms="-1")
        produce(wire, "good", batch(b"old"))
        # Without a timestamp in it retention uses the time of the segment file.
        produce(wire, "bad", batch(b"no time", timestamp_ms=-1))
        files.folder = "bad-0"
        expire(server, "bad", "good")
        eventually(lambda: is_expired(wire, "good"), "retention of the others")
        eventually(lambda: files.stumbled > 2, "the chore going on")
        assert metrics(server)["headrace_background_failures_total"] >= 2
    failures = [record for record in caplog.records if "housekeeping failed" in record.getMessage()]
    assert failures
    assert all(record.exc_info for record in failures), "a bug needs its traceback"


def test_share_group_states_are_stored_again_after_an_unexpected_exception(tmp_path: Path) -> None:
    files = Stumbling()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        topic_id = create_topic(wire, "t")
        set_group_configs(wire, "g", share_auto_offset_reset="earliest")
        produce(wire, "t", batch(b"a", b"b"))
        worker = ShareMember(wire, "g", topic_id)
        worker.fetch(max_wait_ms=WAIT_MS)
        files.folder = "__share_group_state-0"
        assert worker.fetch((0, 0, ACCEPT)).acknowledge_error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert files.stumbled
        files.folder = ""
        assert worker.fetch((1, 1, ACCEPT)).acknowledge_error_code == 0
        found = group_offset(wire, "g")
        assert found is not None
        assert metrics(server)["headrace_background_failures_total"] >= 1
