"""Spark's checkpoint folder, as far as a job reads or restores it: identity, offset log, commit log.

    metadata          {"id": …}: the identity of the query
    sources/<i>/0     first offsets of source i, written by the Kafka source before the first batch
    offsets/<n>       written before batch n: the end offsets of each source
    commits/<n>       written after batch n

The formats are Spark's, and Spark reads the restored files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence
from headrace.pipeline.folders.folder import Folder, Lock
from headrace.pipeline.folders.opened import open_folder

NO_OFFSET = "-"
"""Spark's notation for a source without an offset."""

LOG_VERSION = "v1"

METADATA = "metadata"
"""Spark writes it first. A folder without it is no checkpoint."""

LOCK = "headrace-lock"
"""Of a checkpoint that several machines reach."""

_TEMPORARY = re.compile(r"\..+(\.tmp|\.tmp\.crc|\.\d+)")
"""Files that Spark and Headrace write before they rename them."""


class Checkpoint:
    """One job's checkpoint, in a folder of this machine or at an address that Spark reaches."""

    def __init__(self, folder: Path | str | Folder) -> None:
        self.folder = open_folder(folder)
        self._identity: str | None = None
        self._last: tuple[int, tuple[str, ...]] | None = None

    def reopened(self) -> Checkpoint:
        """The same folder without cached values, for the next query."""
        return Checkpoint(self.folder)

    def identity(self) -> str | None:
        """The identity of the query; None before its first start."""
        try:
            text = self.folder.read(METADATA).decode()
        except FileNotFoundError:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadJob(
                f"{self.folder.address}/{METADATA} is damaged: {text[:100]!r}",
                hint="remove the checkpoint folder: a job without state resumes from the fence of its target, and a "
                "job with state fails with instructions for a rebuild",
            ) from error

    def planned_batch(self) -> int | None:
        """The newest batch whose offsets are fixed."""
        return self._newest("offsets")

    def committed_batch(self) -> int | None:
        """The newest committed batch."""
        return self._newest("commits")

    def _newest(self, log: str) -> int | None:
        return max((int(name) for name in self.folder.names(log) if name.isdecimal()), default=None)

    def lock(self) -> Lock | None:
        """None on this machine: there the folder of the job has a lock."""
        return None if self.folder.path is not None else self.folder.lock(LOCK)

    def has_state(self) -> bool:
        return bool(self.folder.names("state"))

    def is_committed(self, batch_id: int) -> bool:
        committed = self.committed_batch()
        return committed is not None and batch_id <= committed

    def fence(self, job: str, batch_id: int) -> Fence:
        """The fence of a batch whose offsets Spark has fixed. Reads one or two small files."""
        ends = self.ends(batch_id)
        starts = self._starts(batch_id, len(ends))
        self._last = (batch_id, ends)
        return self._fence(job, batch_id, starts, ends)

    def fence_since(self, starts: tuple[str, ...], job: str, batch_id: int) -> Fence:
        """One fence for all batches from these offsets to this one; without offsets, from the first batch."""
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
        """The watermark of the batch; None if there is none."""
        about, _ = self._planned(batch_id)
        return int(json.loads(about).get("batchWatermarkMs", 0)) or None

    def _planned(self, batch_id: int) -> tuple[str, tuple[str, ...]]:
        """What Spark has fixed for a batch: its metadata as JSON, and the end offsets of each source."""
        planned = self.folder.read(f"offsets/{batch_id}").decode()
        version, about, *sources = planned.rstrip("\n").split("\n")
        if version != LOG_VERSION:
            raise BadJob(
                f"{self.folder.address}/offsets/{batch_id} has version {version}, and only version {LOG_VERSION} is "
                "supported",
                hint="another version of Spark wrote it; run the job with that one, or reset it",
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
        """The first offsets of a Kafka source; other sources have no such file."""
        try:
            text = self.folder.read(f"sources/{source}/0").decode()
        except FileNotFoundError:
            return NO_OFFSET
        # The source writes a zero byte first, to distinguish its first version from the second. A source of files has
        # a log of files there.
        if not text.startswith("\0"):
            return NO_OFFSET
        version, _, offsets = text.lstrip("\0").partition("\n")
        return offsets.strip() if version.startswith("v") else NO_OFFSET

    def plan_until(self, ends: tuple[str, ...], *, now_ms: int) -> int:
        """Fix the end offsets of the next batch, which Spark runs first when the query starts. Returns its number, or
        that of the last batch if it ended there."""
        planned = self.planned_batch()
        if planned is None:
            raise BadJob(
                f"{self.folder.address} has no batch yet, so that none can be planned after it",
                hint="run the job once first",
            )
        about, last_ends = self._planned(planned)
        if last_ends == ends:
            return planned
        committed = self.committed_batch()
        if committed is not None and self.ends(committed) == ends:
            return committed
        if planned != committed:
            raise BadJob(
                f"batch {planned} of {self.folder.address} is not committed", hint="run the job once first"
            )
        version, after = self.folder.read(f"commits/{planned}").decode().split("\n")[:2]
        assert version == LOG_VERSION
        fields = {
            **json.loads(about),
            "batchTimestampMs": now_ms,
            "batchWatermarkMs": json.loads(after).get("nextBatchWatermarkMs", 0),
        }
        content = "\n".join([LOG_VERSION, json.dumps(fields), *ends])
        self.folder.write(f"offsets/{planned + 1}", content.encode())
        return planned + 1

    def restore(self, fence: Fence, *, conf: Mapping[str, str], now_ms: int) -> None:
        """Write the checkpoint of the moment when the fence's batch was planned, and not yet committed.

        `conf` is the part of Spark's configuration that it keeps with each batch; `now_ms` is the time of the batch.

        Spark will run that batch again, from the same offsets and with its old number. The target has the whole batch
        or a part of it, and accepts what is missing.
        """
        files = {
            METADATA: json.dumps({"id": fence.checkpoint}),
            f"offsets/{fence.batch_id}": _offset_log(fence.ends, conf, now_ms),
        }
        if fence.batch_id > 0:
            committed = fence.batch_id - 1
            files[f"offsets/{committed}"] = _offset_log(fence.starts, conf, now_ms)
            files[f"commits/{committed}"] = f'{LOG_VERSION}\n{{"nextBatchWatermarkMs": 0}}'
        else:
            starts = {number: start for number, start in enumerate(fence.starts) if start != NO_OFFSET}
            files |= {f"sources/{number}/0": f"\0v1\n{start}" for number, start in starts.items()}
        self.remove()
        self.folder.fill(files, METADATA)

    def remove_leftovers(self) -> None:
        """Delete what a crash left. Call it before a query starts, while no other process runs the job."""
        self.folder.remove_leftovers()
        if self.folder.path is None and self.identity() is None:
            self.remove()  # the last removal was interrupted
        if self.planned_batch() is None:
            # Spark rejects a first batch that finds any file.
            for log in ("offsets", "commits", "state"):
                self.folder.delete(log)
        for name in self.folder.hidden_files():
            if _TEMPORARY.fullmatch(name.rpartition("/")[2]):
                self.folder.delete(name)

    def remove(self) -> None:
        """Delete everything, state included, and nothing of a lock that this process holds."""
        self.folder.clear(METADATA, keep=LOCK if self.folder.path is None else "")


def _offset_log(offsets: tuple[str, ...], conf: Mapping[str, str], now_ms: int) -> str:
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": dict(conf)}
    return "\n".join([LOG_VERSION, json.dumps(metadata), *offsets])
