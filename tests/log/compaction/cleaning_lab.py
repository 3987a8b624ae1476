"""Closed segments in a folder, and compaction passes over them without a partition log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from headrace.log.compaction.cleaner import Compacted, CompactionPass
from headrace.log.compaction.planning import CompactionSegment, plan_compaction
from headrace.log.config import LogConfig
from headrace.log.segment import Segment
from headrace.log.segment_names import LOG_SUFFIX, segment_bases, segment_path
from headrace.records.batch import read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, decode_records, encode_batch
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NotSyncing

NOW_MS = 10_000_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000, decompressed_bytes_max=1 << 20
)


class LogOnDisk:
    """Closed segments in a folder, and the swap that a partition log does after a pass."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = FailingFileSystem(files=NotSyncing())
        directory.mkdir(exist_ok=True)
        self.end_offset = 0

    def write_segment(self, *batches: bytes) -> None:
        base_offset = read_header(batches[0]).base_offset
        Path(segment_path(str(self.directory), base_offset) + LOG_SUFFIX).write_bytes(b"".join(batches))
        self.end_offset = read_header(batches[-1]).next_offset

    def segments(self) -> list[Segment]:
        """All segments, with an empty active one at the end of the log."""
        bases = segment_bases(path.name for path in self.directory.iterdir())
        return [self._segment(base_offset) for base_offset in (*bases, self.end_offset)]

    def _segment(self, base_offset: int) -> Segment:
        stem = segment_path(str(self.directory), base_offset)
        size_bytes = 0 if base_offset == self.end_offset else Path(stem + LOG_SUFFIX).stat().st_size
        return Segment(files=self.files, stem=stem, base_offset=base_offset, size_bytes=size_bytes)

    def batches(self) -> list[bytes]:
        return [batch for segment in self.segments()[:-1] for batch in segment.batches()]

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in decode_records(batch, bytes_max=1 << 30)]

    def due(
        self,
        *,
        first_dirty_offset: int = 0,
        now_ms: int = NOW_MS,
        config: LogConfig = CONFIG,
        last_offset_of_producers: dict[int, int] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CompactionPass:
        segments = self.segments()
        plan = plan_compaction(
            [CompactionSegment.of(segment) for segment in segments],
            first_dirty_offset=first_dirty_offset,
            start_offset=0,
            cleanable_before_offset=self.end_offset,
            now_ms=NOW_MS,
            config=replace(config, min_cleanable_dirty_ratio=0.0),
        )
        assert plan is not None
        return CompactionPass(
            files=self.files,
            config=config,
            plan=plan,
            segments={segment.base_offset: segment for segment in segments},
            last_offset_of_producers=last_offset_of_producers or {},
            aborted=(),
            now_ms=now_ms,
            should_stop=should_stop,
        )

    def compact(
        self,
        *,
        first_dirty_offset: int = 0,
        now_ms: int = NOW_MS,
        last_offset_of_producers: dict[int, int] | None = None,
        offset_map_entries_max: int = 1000,
    ) -> Compacted:
        due = self.due(
            first_dirty_offset=first_dirty_offset,
            now_ms=now_ms,
            last_offset_of_producers=last_offset_of_producers,
        )
        done = due.run(offset_map_entries_max=offset_map_entries_max)
        for replacement in done.replacements:
            for source in replacement.sources:
                source.remove()
            replacement.cleaned.change_suffix("")
        return done


def keyed_record(offset: int, key: str, value: str | None, timestamp_ms: int = 1000) -> Record:
    return Record(
        offset=offset,
        timestamp_ms=timestamp_ms + offset,
        key=key.encode(),
        value=None if value is None else value.encode(),
        headers=(("from", b"test"),),
    )


def keyed_batch(
    offset: int, *pairs: tuple[str, str | None], codec: Codec = Codec.NONE, producer_id: int = -1
) -> bytes:
    records = [keyed_record(offset + index, key, value) for index, (key, value) in enumerate(pairs)]
    return encode_batch(
        records,
        base_offset=offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=offset if producer_id >= 0 else -1,
        leader_epoch=4,
    )
