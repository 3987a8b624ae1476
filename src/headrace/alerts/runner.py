"""Runs all alerts of a data folder, until it is stopped. It follows changes of definitions and silences."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headrace.alerts.catalog import Acknowledgement, Alerts, RunnerStatus
from headrace.alerts.definition import Alert
from headrace.alerts.delivery import Delivery
from headrace.alerts.desk import Desk
from headrace.alerts.engine import AlertEngine
from headrace.alerts.errors import BadAlert
from headrace.alerts.history import HistoryEvent, HistoryKind
from headrace.alerts.lanes import PAUSE_S_MIN, Lanes
from headrace.alerts.silences import Silence
from headrace.alerts.state_log import StateLog
from headrace.alerts.streams import Read, Streams
from headrace.clock import Clock, SystemClock
from headrace.conditions import BadCondition
from headrace.events.errors import EventsError, StoreUnavailable
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed
from headrace.registered.errors import BadRecord, RegistryUnavailable

READ_COUNT, READ_S = 2_000, 0.1
"""Records of one step, and how long it waits for them: messages and timers wait as long."""

DUE_MAX = 1_000
"""Keys of an alert that time changes in one step, and so in one transaction."""

CHECK_COUNT = 100
"""Records between two looks at the size of the transaction."""

COMMIT_S = 1.0
"""Positions alone are written so often; changes of a key immediately."""

LOOK_S = 0.5
"""Between two looks at the data folder."""

PARTITIONS_S = 5.0
"""Between two looks for new topics and partitions."""

RETRY_S_MIN, RETRY_S_MAX = 0.5, 30.0
"""The pause before a retry, which doubles: a broker restarts within seconds, or is unavailable for an hour."""

log = logging.getLogger("headrace.alerts")


class AlertsRun:
    def __init__(
        self,
        alerts: Alerts,
        cluster: Cluster,
        *,
        is_stopping: Callable[[], bool],
        on_ready: Callable[[int], None] = lambda _count: None,
        to_json: Callable[[bytes], bytes] | None = None,
        clock: Clock | None = None,
        pause_s_min: float = PAUSE_S_MIN,
    ) -> None:
        """`to_json` reads values with the id of a registered schema; BadRecord, RegistryUnavailable."""
        self._alerts = alerts
        self._cluster = cluster
        self._is_stopping = is_stopping
        self._on_ready = on_ready
        self._to_json = to_json
        self._clock = clock or SystemClock()
        self._delivery = Delivery(alerts.vapid_keys())
        self._lanes = Lanes(
            self._delivery.deliver, self._delivery.retry_for_ms, self._clock, pause_s_min=pause_s_min
        )
        self._log = StateLog(cluster, self._clock, str(alerts.data_dir))
        self._desk = Desk(self._log, self._lanes, self._delivery)
        self._definitions: dict[str, Alert] = {}
        self._versions: dict[str, int] = {}
        self._silences: list[Silence] = []
        self._requests: list[Acknowledgement] = []
        self._known_partitions: set[Partition] = set()
        self._is_ready = False

    def run(self) -> None:
        """Raises AlertsFenced if another process takes over. A broker that is unavailable is waited for."""
        if not self._alerts.lock.take():
            raise BadAlert(
                f"the alerts of {self._alerts.data_dir} run already", hint="one process runs them at a time"
            )
        state, error = "stopped", ""
        try:
            self._run_with_retries()
        except Exception as failure:
            state, error = "failed", str(failure)
            raise
        finally:
            self._lanes.stop()
            self._log.close()
            self._report(state, error)
            self._alerts.lock.release()

    def _run_with_retries(self) -> None:
        pause_s = RETRY_S_MIN
        while not self._is_stopping():
            begun_s = self._clock.monotonic_s()
            try:
                self._run_once()
                return
            except (StoreUnavailable, RequestFailed) as error:
                if self._clock.monotonic_s() - begun_s > RETRY_S_MAX:
                    pause_s = RETRY_S_MIN
                log.warning("%s; the next try is in %.1f s", error, pause_s)
                self._report("waiting to retry", str(error))
                until_s = time.monotonic() + pause_s
                while time.monotonic() < until_s and not self._is_stopping():
                    time.sleep(0.05)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _run_once(self) -> None:
        stored = self._log.open()
        now_ms = self._clock.now_ms()
        self._versions = {}
        self._read_definitions()
        self._silences = self._alerts.silences(now_ms)
        self._desk.load(stored, self._definitions, now_ms)
        streams = Streams(self._cluster)
        try:
            self._assign(streams)
            self._loop(streams)
        finally:
            streams.close()

    def _loop(self, streams: Streams) -> None:
        committed_s = looked_s = partitions_s = self._clock.monotonic_s()
        self._report("running")
        if not self._is_ready:
            self._is_ready = True
            self._on_ready(len(self._definitions))
        while not self._is_stopping():
            reads = streams.read(READ_COUNT, READ_S)
            now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
            self._apply(reads, now_ms)
            is_full = self._pass_time(streams, now_ms)
            if now_s - looked_s >= LOOK_S:
                looked_s = now_s
                self._look(streams, now_ms)
            if now_s - partitions_s >= PARTITIONS_S:
                partitions_s = now_s
                self._look_for_partitions(streams)
            has_outcomes = bool(self._lanes.outcomes())
            if is_full or has_outcomes or self._desk.is_changed or now_s - committed_s >= COMMIT_S:
                if self._desk.is_changed or has_outcomes or self._desk.has_moved:
                    self._commit(now_ms)
                committed_s = now_s
        self._lanes.stop()
        self._commit(self._clock.now_ms())

    def _apply(self, reads: Sequence[Read], now_ms: int) -> None:
        engines: dict[str, list[AlertEngine]] = {}
        for engine in self._desk.engines.values():
            engines.setdefault(engine.alert.topic, []).append(engine)
        for number, read in enumerate(reads):
            found = engines.get(read.topic, ())
            is_registered = any(each.alert.value_format == "registry" for each in found)
            decoded = self._decoded(read) if is_registered else read
            for engine in found:
                engine.on_read(decoded if engine.alert.value_format == "registry" else read, now_ms)
            if number % CHECK_COUNT == 0 and self._desk.is_full:
                self._commit(now_ms)

    def _decoded(self, read: Read) -> Read:
        """With JSON as its value."""
        if read.value is None:
            return read
        try:
            if self._to_json is None:
                raise BadRecord("this process has no schema registry")
            return replace(read, value=self._to_json(read.value))
        except BadRecord as error:
            return replace(read, problem=str(error))
        except RegistryUnavailable as error:
            raise StoreUnavailable(error.message, hint=error.hint) from error

    def _pass_time(self, streams: Streams, now_ms: int) -> bool:
        """Whether some keys are still due."""
        is_full = False
        for engine in self._desk.engines.values():
            time_ms = streams.time_ms(engine.alert.topic, now_ms)
            is_full |= engine.on_time(time_ms, now_ms, DUE_MAX) == DUE_MAX
            engine.send_due(self._silences, now_ms)
            if self._desk.is_full:
                self._commit(now_ms)
        return is_full

    def _commit(self, now_ms: int) -> None:
        try:
            self._desk.commit(now_ms)
        except EventsError as error:
            if isinstance(error, StoreUnavailable):
                raise
            raise StoreUnavailable(error.message, hint=error.hint) from error
        for request in self._requests:
            self._alerts.clear_request(request.id)
        self._requests = []

    # The data folder

    def _look(self, streams: Streams, now_ms: int) -> None:
        """What people have changed."""
        if self._read_definitions():
            self._desk.change(self._definitions, now_ms)
            self._assign(streams)
        silences = self._alerts.silences(now_ms)
        if silences != self._silences:
            self._silences = silences
            self._alerts.remove_ended(now_ms)
            for engine in self._desk.engines.values():
                engine.on_silences_changed(now_ms)
        for request in self._alerts.requests():
            if request in self._requests:
                continue
            self._requests.append(request)
            engine_of = self._desk.engines.get(request.alert)
            if engine_of is not None:
                engine_of.acknowledge(request.key, request.by, now_ms, requested_ms=request.at_ms)
        if self._requests and not self._desk.is_changed:
            self._commit(now_ms)
        self._report("running")

    def _read_definitions(self) -> bool:
        """Whether they have changed. One that can't be read is as it was, or does not run."""
        versions = self._alerts.versions()
        if versions == self._versions:
            return False
        self._versions = versions
        found = {}
        for name in versions:
            try:
                found[name] = self._alerts.get(name)
            except (BadAlert, BadCondition) as error:
                log.warning("alert %s: %s", name, error)
                if name in self._definitions:
                    found[name] = self._definitions[name]
        is_changed = found != self._definitions
        self._definitions = found
        self._delivery.keys = self._alerts.vapid_keys()
        return is_changed

    # Positions

    def _look_for_partitions(self, streams: Streams) -> None:
        topics = {engine.alert.topic for engine in self._desk.engines.values()}
        found = {each for partitions in streams.partitions(topics).values() for each in partitions}
        if found != self._known_partitions:
            self._assign(streams)

    def _assign(self, streams: Streams) -> None:
        """Read every topic from the lowest position of its alerts."""
        engines = [*self._desk.engines.values()]
        partitions = streams.partitions(engine.alert.topic for engine in engines)
        self._known_partitions = {each for several in partitions.values() for each in several}
        lowest: dict[Partition, int] = {}
        for engine in engines:
            found = partitions.get(engine.alert.topic, [])
            wanted = {each: engine.position(each.number) or 0 for each in found}
            for partition, corrected in streams.correct(wanted).items():
                if corrected.missed and engine.position(partition.number) is not None:
                    self._note_missed(engine, partition, corrected.missed)
                engine.move(partition.number, corrected.position)
                wanted[partition] = corrected.position
            for partition, position in wanted.items():
                lowest[partition] = min(position, lowest.get(partition, position))
        streams.assign(lowest)

    def _note_missed(self, engine: AlertEngine, partition: Partition, count: int) -> None:
        engine.book.counts.missed += count
        engine.note(
            HistoryEvent(
                at_ms=self._clock.now_ms(),
                alert=engine.alert.name,
                event=HistoryKind.MISSED,
                reason=f"{partition}: {count:,} records were deleted before they were read",
            )
        )

    def _report(self, state: str, error: str = "") -> None:
        self._alerts.write_status(
            RunnerStatus(state=state, pid=os.getpid(), updated_ms=self._clock.now_ms(), error=error)
        )
