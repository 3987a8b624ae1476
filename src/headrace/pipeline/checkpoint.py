"""Spark's checkpoint folder, as far as a job must read or restore it: identity, offset log, commit log.

    metadata          {"id": …}: the identity of the query
    sources/<i>/0     where source i began, written by the Kafka source before the first batch
    offsets/<n>       written before batch n: where each source's part of it ends
    commits/<n>       written after batch n

The formats are Spark's; what is written here is what Spark itself would have written, and Spark reads it back.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence

NO_OFFSET = "-"
"""Spark's own sign for a source that has nothing in a batch yet."""

LOG_VERSION = "v1"


class Checkpoint:
    """One job's checkpoint in a folder that this machine can reach."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._identity: str | None = None
        self._last: tuple[int, tuple[str, ...]] | None = None

    def reopened(self) -> Checkpoint:
        """The same folder with nothing remembered: for the next query that runs there."""
        return Checkpoint(self.folder)

    def identity(self) -> str | None:
        """The identity of the query, or None where no query has begun."""
        try:
            text = (self.folder / "metadata").read_text()
        except FileNotFoundError:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadJob(
                f"{self.folder / 'metadata'} is damaged: {text[:100]!r}",
                hint="remove the checkpoint folder: a job without state goes on where its target is, and another "
                "one says how to rebuild it",
            ) from error

    def planned_batch(self) -> int | None:
        """The newest batch whose offsets are fixed."""
        return _newest(self.folder / "offsets")

    def committed_batch(self) -> int | None:
        """The newest batch that is done."""
        return _newest(self.folder / "commits")

    def is_committed(self, batch_id: int) -> bool:
        committed = self.committed_batch()
        return committed is not None and batch_id <= committed

    def fence(self, job: str, batch_id: int) -> Fence:
        """The fence of a batch whose offsets Spark has fixed. Once a batch: two small files are read, mostly one."""
        ends = self.ends(batch_id)
        starts = self._starts(batch_id, len(ends))
        self._last = (batch_id, ends)
        return self._fence(job, batch_id, starts, ends)

    def fence_since(self, starts: tuple[str, ...], job: str, batch_id: int) -> Fence:
        """As if all batches from these offsets on, up to this one, were one; without offsets, from the very first."""
        ends = self.ends(batch_id)
        return self._fence(job, batch_id, starts or self._first_of_all(len(ends)), ends)

    def _fence(self, job: str, batch_id: int, starts: tuple[str, ...], ends: tuple[str, ...]) -> Fence:
        if self._identity is None:
            self._identity = self.identity()
        assert self._identity is not None, "a query that runs a batch has an identity"
        return Fence(job=job, checkpoint=self._identity, batch_id=batch_id, starts=starts, ends=ends)

    def ends(self, batch_id: int) -> tuple[str, ...]:
        _, sources = self._planned(batch_id)
        return sources

    def watermark_ms(self, batch_id: int) -> int | None:
        """What the batch is worked with; None if there is none yet, or none at all."""
        about, _ = self._planned(batch_id)
        return int(json.loads(about).get("batchWatermarkMs", 0)) or None

    def _planned(self, batch_id: int) -> tuple[str, tuple[str, ...]]:
        """What Spark has fixed of a batch: JSON of what is true for all of it, and where each source's part ends."""
        path = self.folder / "offsets" / str(batch_id)
        version, about, *sources = path.read_text().rstrip("\n").split("\n")
        if version != LOG_VERSION:
            raise BadJob(
                f"{path} is of version {version}, and {LOG_VERSION} is known",
                hint="another Spark wrote it; run the job with that one, or reset it",
            )
        return about, tuple(sources)

    def _starts(self, batch_id: int, sources: int) -> tuple[str, ...]:
        if self._last is not None and self._last[0] == batch_id - 1:
            return self._last[1]
        if batch_id > 0:
            return self.ends(batch_id - 1)
        return self._first_of_all(sources)

    def _first_of_all(self, sources: int) -> tuple[str, ...]:
        return tuple(self._first_offsets(source) for source in range(sources))

    def _first_offsets(self, source: int) -> str:
        """Where the Kafka source began; other sources keep nothing that could be read here."""
        try:
            text = (self.folder / "sources" / str(source) / "0").read_text()
        except FileNotFoundError:
            return NO_OFFSET
        # A zero byte in front: the source's way to tell its first version from the second.
        version, _, offsets = text.lstrip("\0").partition("\n")
        return offsets.strip() if version.startswith("v") else NO_OFFSET

    def restore(self, fence: Fence, *, conf: Mapping[str, str], now_ms: int) -> None:
        """Write the checkpoint that was there when the fence's batch was begun, and not yet committed.

        `conf` is what Spark keeps of its configuration with each batch; `now_ms` what the batch takes for the time.

        Spark will run that batch again, from the same offsets and under its old number; the target knows it, in whole
        or in part, and takes what is missing.
        """
        made = self.folder.with_name(f".{self.folder.name}.restored")
        shutil.rmtree(made, ignore_errors=True)
        _write(made / "metadata", json.dumps({"id": fence.checkpoint}))
        if fence.batch_id > 0:
            _write(made / "offsets" / str(fence.batch_id - 1), _offset_log(fence.starts, conf, now_ms))
            _write(made / "commits" / str(fence.batch_id - 1), _commit_log())
        else:
            for source, start in enumerate(fence.starts):
                if start != NO_OFFSET:
                    _write(made / "sources" / str(source) / "0", f"\0v1\n{start}")
        _write(made / "offsets" / str(fence.batch_id), _offset_log(fence.ends, conf, now_ms))
        self.remove()
        os.replace(made, self.folder)

    def remove(self) -> None:
        """Forget everything, state included."""
        if self.folder.exists():
            # A removal that is cut short must not leave half a checkpoint behind.
            doomed = self.folder.with_name(f".{self.folder.name}.removed")
            shutil.rmtree(doomed, ignore_errors=True)
            os.replace(self.folder, doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def _newest(log: Path) -> int | None:
    try:
        return max((int(entry) for entry in os.listdir(log) if entry.isdecimal()), default=None)
    except FileNotFoundError:
        return None


def _offset_log(offsets: tuple[str, ...], conf: Mapping[str, str], now_ms: int) -> str:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": dict(conf)}
    return "\n".join([LOG_VERSION, json.dumps(metadata), *offsets])


def _commit_log() -> str:
    return f"{LOG_VERSION}\n{json.dumps({'nextBatchWatermarkMs': 0})}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
