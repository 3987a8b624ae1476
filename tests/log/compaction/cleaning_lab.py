"""Closed segments in a folder, and compaction passes over them without a partition log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.cleaner import (
    Compacted,
    run,
)
from headrace.log.compaction.planning import (
    CompactionPlan,
    CompactionSegment,
    plan_compaction,
)
from headrace.log.config import LogConfig
from headrace.records.batch import BatchHeader, iterate_headers, read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, decode_records, encode_batch

NOW_MS = 10_000_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000, decompressed_bytes_max=1 << 20
)


class CleanedFile:
    """A cleaned segment as a plain file: what the log's own writer does, without the indexes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self.is_finished = False

    def append(self, batch: bytes, header: BatchHeader) -> None:
        assert header == read_header(batch)
        self._file.write(batch)

    def keep_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        self.aborted = tuple(aborted)

    def finish(self) -> None:
        self._file.close()
        self.is_finished = True

    def abandon(self) -> None:
        self._file.close()
        self.path.unlink()


class LogOnDisk:
    """Closed segments in a folder, and the swap that a partition log makes after a pass."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.end_offset = 0

    def write_segment(self, *batches: bytes) -> None:
        base_offset = read_header(batches[0]).base_offset
        self._path(base_offset).write_bytes(b"".join(batches))
        self.end_offset = read_header(batches[-1]).next_offset

    def _path(self, base_offset: int) -> Path:
        return self.directory / f"{base_offset:020}.log"

    def segments(self) -> list[CompactionSegment]:
        """All segments, with an empty active one at the end of the log."""
        closed = [segment_on_disk(path) for path in sorted(self.directory.glob("*.log"))]
        return [*closed, segment_on_disk(self._path(self.end_offset))]

    def batches(self) -> list[bytes]:
        return [batch for segment in self.segments()[:-1] for batch in read_batches(segment)]

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in decode_records(batch, bytes_max=1 << 30)]

    def plan(self, *, first_dirty_offset: int = 0, config: LogConfig = CONFIG) -> CompactionPlan | None:
        return plan_compaction(
            self.segments(),
            first_dirty_offset=first_dirty_offset,
            start_offset=0,
            cleanable_before_offset=self.end_offset,
            now_ms=NOW_MS,
            config=replace(config, min_cleanable_dirty_ratio=0.0),
        )

    def compact(
        self,
        *,
        first_dirty_offset: int = 0,
        now_ms: int = NOW_MS,
        config: LogConfig = CONFIG,
        last_offset_of_producers: dict[int, int] | None = None,
        offset_map_entries_max: int = 1000,
    ) -> Compacted:
        planned = self.plan(first_dirty_offset=first_dirty_offset, config=config)
        assert planned is not None
        done = run(
            planned,
            config=config,
            read_batches=read_batches,
            open_cleaned=self.open_cleaned,
            last_offset_of_producers=last_offset_of_producers or {},
            now_ms=now_ms,
            offset_map_entries_max=offset_map_entries_max,
        )
        self.swap(done)
        return done

    def open_cleaned(self, base_offset: int) -> CleanedFile:
        return CleanedFile(self._path(base_offset).with_suffix(".cleaned"))

    def swap(self, done: Compacted) -> None:
        for replacement in done.replacements:
            writer = replacement.writer
            assert isinstance(writer, CleanedFile)
            assert writer.is_finished
            assert writer.path.stat().st_size == replacement.size_bytes
            for source in replacement.sources:
                source.path.unlink()
            writer.path.rename(self._path(replacement.base_offset))


def read_batches(segment: CompactionSegment) -> Iterator[bytes]:
    content = segment.path.read_bytes()
    for position, header in iterate_headers(content):
        yield content[position : position + header.size_bytes]


def segment_on_disk(path: Path) -> CompactionSegment:
    content = path.read_bytes() if path.exists() else b""
    headers = [header for _, header in iterate_headers(content)]
    return CompactionSegment(
        base_offset=int(path.stem),
        path=path,
        size_bytes=len(content),
        index_bytes=8 * len(headers),
        time_index_bytes=12 * len(headers),
        first_timestamp_ms=headers[0].max_timestamp_ms if headers else -1,
        max_timestamp_ms=max((header.max_timestamp_ms for header in headers), default=-1),
    )


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
