"""Decides when a source is idle, so that it does not hold back the watermark of a job that also reads others.

A topic is idle only if nothing was written to it for the configured time *and* all its records are part of a committed
batch. A source with lag is not idle, however long the replay takes, so a heartbeat never makes a row late that was in
the topic before it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.files import replace_text
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.source.heartbeats import signal_file
from headrace.pipeline.source.offsets import Offsets, smallest_offsets
from headrace.pipeline.source.positions import TopicsOnBroker
from headrace.pipeline.source.spec import SourceSpec

logger = logging.getLogger("headrace.pipeline")

LOOKS_PER_IDLE = 4
LOOK_S_MIN, LOOK_S_MAX = 0.5, 60.0
"""A look costs a request to the broker, and a heartbeat costs a micro-batch."""


class IdleSince(Struct, frozen=True, kw_only=True):
    """Since when a topic has had these end offsets."""

    ends: Offsets
    since_s: float

    def after(self, ends: Offsets, now_s: float) -> IdleSince:
        return self if ends == self.ends else IdleSince(ends=ends, since_s=now_s)

    def is_idle(self, position: Offsets, idle_s: float, now_s: float) -> bool:
        """Whether nothing was written for `idle_s`, and a reader at this position has read everything."""
        is_caught_up = all(
            position.get(topic, {}).get(partition, 0) >= end
            for topic, ends in self.ends.items()
            for partition, end in ends.items()
        )
        return is_caught_up and now_s - self.since_s >= idle_s


_watching: dict[str, list[IdleWatch]] = {}
"""By source: the jobs whose queries read it. Jobs of the same DataFrame share a source and its heartbeats."""
_watching_lock = threading.Lock()


class IdleWatch:
    """Watches the topics of a job's sources that may be idle, in a thread of its own while the query runs."""

    def __init__(
        self, job: str, specs: Sequence[SourceSpec], checkpoint: Checkpoint, *, clock: Clock | None = None
    ) -> None:
        self._job = job
        self._specs = [spec for spec in specs if spec.idle_us is not None]
        self._checkpoint = checkpoint
        self._clock = clock or SystemClock()
        self._on_broker = {spec.id: TopicsOnBroker(spec) for spec in self._specs}
        self._idle_since: dict[str, IdleSince] = {}
        self._idle: set[str] = set()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Call it before the query starts: the query may have lag, and must not see an older heartbeat."""
        if not self._specs or self._thread is not None:
            return
        with _watching_lock:
            for spec in self._specs:
                _watching.setdefault(spec.id, []).append(self)
                signal_file(spec.id).unlink(missing_ok=True)
        self._stopping.clear()
        self._thread = threading.Thread(target=self._watch, name=f"headrace-idle-{self._job}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        thread.join()
        with _watching_lock:
            for spec in self._specs:
                _watching[spec.id].remove(self)
                signal_file(spec.id).unlink(missing_ok=True)

    def _watch(self) -> None:
        idle_s = min(spec.idle_us or 0 for spec in self._specs) / 1e6
        look_s = min(max(idle_s / LOOKS_PER_IDLE, LOOK_S_MIN), LOOK_S_MAX)
        while not self._stopping.wait(look_s):
            for spec in self._specs:
                try:
                    self.look(spec)
                except (
                    Exception
                ) as error:  # if the broker is unavailable, the query fails too, and reports it
                    logger.info(
                        "job %s: cannot find out whether %s is idle: %s", self._job, spec.topics, error
                    )

    def look(self, spec: SourceSpec) -> bool:
        """Whether the source is idle for this job. If it is idle for all jobs that read it, request a heartbeat."""
        assert spec.idle_us is not None
        # Records of an open transaction are still to be read: then the source is not idle.
        ends, now_s = self._on_broker[spec.id].ends_written(), self._clock.monotonic_s()
        before = self._idle_since.get(spec.id) or IdleSince(ends=ends, since_s=now_s)
        self._idle_since[spec.id] = idle_since = before.after(ends, now_s)
        is_idle = idle_since.is_idle(self._position(), spec.idle_us / 1e6, now_s)
        with _watching_lock:
            self._idle = self._idle | {spec.id} if is_idle else self._idle - {spec.id}
            if is_idle and all(spec.id in each._idle for each in _watching.get(spec.id, [])):
                replace_text(signal_file(spec.id), str(self._clock.now_ms() * 1_000 - spec.idle_us))
        return is_idle

    def _position(self) -> dict[str, dict[int, int]]:
        """Up to here everything is in a committed batch."""
        committed = self._checkpoint.committed_batch()
        return {} if committed is None else smallest_offsets(self._checkpoint.ends(committed))
