"""Delivers for all targets of a data folder, until it is stopped.

It looks at the definitions again and again: a target that is added starts, one that was changed starts again with its
new definition, one that was removed or paused stops. Each has its own connections, threads and bounds; they share one
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.errors import BadWebhook
from headrace.webhooks.outgoing.attempts import AttemptLog
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.queue_run import QueueRun
from headrace.webhooks.outgoing.state import TargetFolder, TargetState, TargetStatus, runner_lock
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.outgoing.topic_run import TopicRun

LOOK_S = 0.1
"""How often definitions are compared, and waiting messages looked at."""

STATUS_S = 1.0

RESTART_S = 5.0
"""The pause after a target could not run: its topic was deleted, or its broker is unavailable."""

Show = Callable[[Mapping[str, TargetStatus]], None]


class _Running:
    """A target with its run, if it has one at the moment."""

    def __init__(self, target: Target, folder: TargetFolder, attempts: AttemptLog) -> None:
        self.target = target
        self.folder = folder
        self.attempts = attempts
        self.run: TopicRun | QueueRun | None = None
        before = folder.status()
        self.health = Health(failing_since_ms=before.failing_since_ms, last_success_ms=before.last_success_ms)
        self.is_removed = False
        self.wants_pause = False
        """Its run sends nothing any more, also if a person has resumed it meanwhile."""
        self.error = ""
        self.restart_s = 0.0
        self.last = TargetStatus()


class Runner:
    def __init__(
        self, parts: Parts, *, names: Collection[str] = (), show: Show = lambda _statuses: None
    ) -> None:
        self._parts = parts
        self._names = frozenset(names)
        self._show = show
        self._catalog = Catalog(parts.data_dir, "out", Target)
        self._running: dict[str, _Running] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}
        """Targets that wait for the answers to what is in flight. None of them starts again before."""
        self._damaged: dict[str, TargetStatus] = {}
        self._status_s = 0.0
        self._lock = runner_lock(parts.data_dir)

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Until `is_stopping`; then what is in flight is waited for."""
        if not self._lock.take():
            raise BadWebhook(
                f"another process delivers the webhooks of {self._parts.data_dir}",
                hint="stop it first, or choose another --data-dir",
            )
        try:
            while not is_stopping():
                self._look()
                await asyncio.sleep(LOOK_S)
        finally:
            for each in self._running.values():
                self._stop(each, TargetState.STOPPED)
            await asyncio.gather(*self._stopping.values())
            self._lock.release()

    def _look(self) -> None:
        self._stopping = {name: task for name, task in self._stopping.items() if not _is_done(task)}
        self._follow_definitions()
        for each in self._running.values():
            self._look_at(each)
        now_s = self._parts.clock.monotonic_s()
        if now_s >= self._status_s + STATUS_S or not self._status_s:
            elapsed_s = now_s - self._status_s if self._status_s else STATUS_S
            self._status_s = now_s
            for each in self._running.values():
                self._write_status(each, elapsed_s)
            self._show({name: each.last for name, each in self._running.items()} | self._damaged)

    def _follow_definitions(self) -> None:
        look = self._catalog.look()
        wanted = {
            name: target
            for name, target in look.definitions.items()
            if not self._names or name in self._names
        }
        self._damaged = {
            name: TargetStatus(state=TargetState.FAILED, error=error.message)
            for name, error in look.damaged.items()
        }
        ended = [each for name, each in self._running.items() if wanted.get(name) != each.target]
        for each in ended:
            each.is_removed = each.target.name not in (look.definitions.keys() | look.damaged.keys())
            self._stop(each, TargetState.STOPPED)
            del self._running[each.target.name]
        for name, target in wanted.items():
            if name not in self._running and name not in self._stopping:
                folder = TargetFolder(self._parts.data_dir, name)
                log = AttemptLog(folder.path, bytes_max=self._parts.settings.attempts_bytes_max)
                self._running[name] = _Running(target, folder, log)

    def _look_at(self, each: _Running) -> None:
        if each.folder.paused() is not None or each.wants_pause:
            each.wants_pause = False
            if each.run is not None:
                self._stop(each, TargetState.PAUSED)
            return
        if each.run is None:
            is_due = self._parts.clock.monotonic_s() >= each.restart_s
            if is_due and each.target.name not in self._stopping:
                self._start(each)
            return
        try:
            each.run.look()
        except Exception as error:
            self._stop(each, TargetState.FAILED)
            self._failed(each, error)

    def _start(self, each: _Running) -> None:
        def pause(reason: str) -> None:
            each.wants_pause = True
            each.folder.pause(reason, self._parts.clock.now_ms())

        kind = TopicRun if each.target.topic else QueueRun
        try:
            each.run = kind(
                each.target, self._parts, attempts=each.attempts, health=each.health, on_pause=pause
            )
            each.error = ""
        except HeadraceError as error:
            self._failed(each, error)

    def _failed(self, each: _Running, error: BaseException) -> None:
        each.error = error.message if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        each.restart_s = self._parts.clock.monotonic_s() + RESTART_S

    def _stop(self, each: _Running, state: TargetState) -> None:
        """Begin to stop it; other targets do not wait for its answers."""
        if each.run is not None:
            run, each.run = each.run, None
            self._stopping[each.target.name] = asyncio.create_task(self._end(each, run, state))
        else:
            self._write(each, replace(each.last, state=state, per_s=0.0, in_flight=0, pending=0))

    async def _end(self, each: _Running, run: TopicRun | QueueRun, state: TargetState) -> None:
        await run.stop()
        each.health = run.health.resumed() if state is TargetState.PAUSED else run.health
        each.attempts.flush()
        self._write(each, replace(run.status(), state=state, error=each.error, in_flight=0, pending=0))

    def _write_status(self, each: _Running, elapsed_s: float) -> None:
        each.attempts.flush()
        if each.run is not None:
            each.health = each.run.health
            status = each.run.status()
            per_s = max(0, status.delivered - each.last.delivered) / elapsed_s
            self._write(each, replace(status, state=TargetState.RUNNING, per_s=round(per_s, 1)))
        elif (paused := each.folder.paused()) is not None:
            self._write(each, replace(each.last, state=TargetState.PAUSED, error=paused.reason, per_s=0.0))
        else:
            self._write(each, replace(each.last, state=TargetState.FAILED, error=each.error, per_s=0.0))

    def _write(self, each: _Running, status: TargetStatus) -> None:
        if each.is_removed:
            each.folder.remove()
            return
        each.last = replace(
            status,
            last_success_ms=each.health.last_success_ms,
            failing_since_ms=each.health.failing_since_ms,
            updated_ms=self._parts.clock.now_ms(),
        )
        # On a full disk, targets go on without it.
        with contextlib.suppress(OSError):
            each.folder.write_status(each.last)


def _is_done(task: asyncio.Task[None]) -> bool:
    if task.done():
        task.result()
        return True
    return False
