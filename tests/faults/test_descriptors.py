"""Too few file descriptors: an error that passes, never damage, and clients can't take those of the log."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Disconnected, Wire
from tests.broker.observing import eventually
from tests.broker.requests import batch, create_topic, produce
from tests.broker.requests import read_all as read_records
from tests.faults.broker_process import BrokerProcess
from tests.faults.faulty_broker import broker_on
from tests.log.batches import NOW_MS, open_log, read_all, values
from tests.log.batches import batch as log_batch

LIMIT = 80
PARTITIONS = 40


class Crowded(FailingFileSystem):
    """Opens nothing, not even what exists, while `is_full`."""

    is_full: bool = False

    def open(self, path: str) -> int:
        self._require()
        return super().open(path)

    def create(self, path: str) -> int:
        self._require()
        return super().create(path)

    def open_directory(self, path: str) -> int:
        self._require()
        return super().open_directory(path)

    def sync_directory(self, path: str) -> None:
        self._require()
        super().sync_directory(path)

    def _require(self) -> None:
        if self.is_full:
            raise OSError(errno.EMFILE, "Too many open files")


def test_partition_without_descriptors_rejects_writes_and_continues_later(tmp_path: Path) -> None:
    files = Crowded()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", segment_bytes="2000")
        files.is_full = True
        assert produce(wire, "t", batch(b"first")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        files.is_full = False
        assert produce(wire, "t", batch(b"x" * 1500)).error_code == 0
        files.is_full = True
        rejected = produce(wire, "t", batch(b"y" * 1500))
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "no segment can be created"
        files.is_full = False
        assert produce(wire, "t", batch(b"z" * 1500)).error_code == 0
        found = [(record.value or b"")[:1] for record in read_records(wire, "t")]
        assert found in ([b"x", b"z"], [b"f", b"x", b"z"]), "what was rejected may be there or not"


def test_flush_that_can_open_nothing_is_no_failed_fsync(tmp_path: Path) -> None:
    files = Crowded()
    log = open_log(tmp_path, files=files)
    log.append(log_batch(b"a"), now_ms=NOW_MS)
    files.is_full = True
    with pytest.raises(OSError, match="Too many"):
        log.flusher.begin()
    assert log.read_only_reason is None
    files.is_full = False
    flush = log.flusher.begin()
    files.is_full = True
    flush.sync()  # needs to open nothing
    log.flusher.finish(flush)
    assert log.durable_offset == 1


def test_partly_created_segment_hides_no_record(tmp_path: Path) -> None:
    """Retention could not create a segment, and appends continued in the old one."""
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    log.append(log_batch(b"a"), now_ms=NOW_MS)
    files.fail("create", "*.timeindex", error_number=errno.EMFILE)
    week_ms = 8 * 86_400_000
    assert log.retention.apply(NOW_MS + week_ms) == []
    log.append(log_batch(b"b"), now_ms=NOW_MS)
    closed = log.close()
    again = open_log(tmp_path, was_clean=True, recovery_offset=closed.end_offset)
    assert (values(read_all(again)), again.read_only_reason) == ([b"a", b"b"], None)


class Limited(BrokerProcess):
    @property
    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *super().command]


def test_crowd_of_connections_leaves_descriptors_to_the_log(tmp_path: Path) -> None:
    with Limited(tmp_path / "data", checkpoint_interval_ms=100) as broker:
        assert "the limit of open files is low" in broker.log
        with Wire(broker.bootstrap) as wire, ExitStack() as crowd:
            create_topic(wire, "t", partitions=PARTITIONS, segment_bytes="2000")
            for _ in range(2 * LIMIT):
                with suppress(OSError, Disconnected):
                    host, _, port = broker.bootstrap.rpartition(":")
                    crowd.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for number in range(3 * PARTITIONS):
                index = number % PARTITIONS
                eventually(
                    lambda index=index: (  # type: ignore[misc]
                        produce(wire, "t", batch(b"x" * 1500), partition=index).error_code == 0
                    ),
                    f"a write to partition {index}",
                )
        assert "read-only" not in broker.log
        assert broker.stop() == 0
