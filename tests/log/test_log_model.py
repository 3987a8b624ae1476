"""A log against a list: whatever is done to it in whatever order, it holds what the list holds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.log.config import LogConfig
from headrace.log.partition_log import Appended
from headrace.records.batch import iterate_headers
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all

CONFIG = LogConfig(
    segment_bytes_max=600,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    closed_segments_open_max=2,
    read_positions_max=3,
)


class LogMachine(RuleBasedStateMachine):
    """`records` is what the log must hold from offset 0 on; those below `start` may not be seen any more."""

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.files = FailingFileSystem(files=NotSyncing())
        self.records: list[bytes] = []
        self.boundaries: set[int] = {0}
        self.start = 0
        self.durable = 0
        self.checkpointed = 0
        self.sequence = 0
        self.log = open_log(self.directory, CONFIG, files=self.files)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    @rule(values=st.lists(st.binary(max_size=100), min_size=1, max_size=8))
    def append_together(self, values: list[bytes]) -> None:
        sent = [
            batch(value, producer_id=1, producer_epoch=0, base_sequence=self.sequence + index)
            for index, value in enumerate(values)
        ]
        first = len(self.records)
        for appended in self.log.append_all(sent, now_ms=NOW_MS):
            assert isinstance(appended, Appended)
            assert (appended.base_offset, appended.duplicate) == (len(self.records), False)
            self.records.append(values[len(self.records) - first])
            self.boundaries.add(len(self.records))
        self.sequence += len(values)

    @rule(values=st.lists(st.binary(max_size=200), min_size=1, max_size=5))
    def append(self, values: list[bytes]) -> None:
        sent = batch(*values, producer_id=1, producer_epoch=0, base_sequence=self.sequence)
        appended = self.log.append(sent, now_ms=NOW_MS)
        assert (appended.base_offset, appended.duplicate) == (len(self.records), False)
        self.records.extend(values)
        self.boundaries.add(len(self.records))
        self.sequence += len(values)
        again = self.log.append(sent, now_ms=NOW_MS)
        assert (again.base_offset, again.last_offset, again.duplicate) == (
            appended.base_offset,
            appended.last_offset,
            True,
        )

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable = len(self.records)

    @rule()
    def checkpoint(self) -> None:
        self.checkpointed = self.log.checkpoint(NOW_MS)
        assert self.checkpointed == self.durable

    @rule()
    def close_and_reopen(self) -> None:
        closed = self.log.close()
        self.log = open_log(
            self.directory,
            CONFIG,
            files=self.files,
            was_clean=True,
            recovery_offset=closed.end_offset,
            start_offset=self.start,
        )
        self.durable = self.checkpointed = len(self.records)

    @rule()
    def be_killed(self) -> None:
        self._reopen_after_crash()
        assert self.log.end_offset == len(self.records)

    @rule()
    def lose_power(self) -> None:
        self.files.drop_unsynced()
        self._reopen_after_crash()
        end = self.log.end_offset
        assert end >= self.durable
        assert end in self.boundaries
        del self.records[end:]
        self.boundaries = {boundary for boundary in self.boundaries if boundary <= end}
        self.start = min(self.start, end)
        self.sequence = end

    def _reopen_after_crash(self) -> None:
        self.files = FailingFileSystem(files=NotSyncing())
        self.log = open_log(
            self.directory,
            CONFIG,
            files=self.files,
            recovery_offset=self.checkpointed,
            start_offset=self.start,
        )
        self.durable = self.log.durable_offset

    @precondition(lambda self: self.durable > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.durable))
        assert self.log.retention.delete_records_before(self.start) == self.start

    @precondition(lambda self: len(self.records) > self.start)
    @rule(data=st.data(), bytes_max=st.integers(1, 2000), nowait=st.booleans())
    def read(self, data: st.DataObject, bytes_max: int, nowait: bool) -> None:
        offset = data.draw(st.integers(self.start, len(self.records) - 1))
        end = data.draw(st.sampled_from(sorted(b for b in self.boundaries if b > offset)))
        found = bytes(
            self.log.reader.read(
                offset, bytes_max=bytes_max, end_offset=end, at_least_one=True, nowait=nowait
            )
        )
        headers = [header for _, header in iterate_headers(found)]
        assert sum(header.size_bytes for header in headers) == len(found)
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert headers[-1].next_offset <= end
        assert len(found) <= bytes_max or len(headers) == 1

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, len(self.records))
        assert self.log.read_only_reason is None
        found = read_all(self.log)
        assert [record.offset for record in found] == list(range(self.start, len(self.records)))
        assert [record.value for record in found] == self.records[self.start :]


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
