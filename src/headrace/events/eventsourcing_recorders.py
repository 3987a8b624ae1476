"""A persistence module for the PyPI library `eventsourcing`: its recorders, on a topic.

    PERSISTENCE_MODULE=headrace.events.eventsourcing_recorders
    HEADRACE_BOOTSTRAP=127.0.0.1:9092        # as for all clients of Headrace
    HEADRACE_EVENTS_TOPIC=bank.events        # by default the name of the application, in lower case, and ".events"

An application has one topic with one partition, because its sequence of notifications is one order. Several processes
may use the same application; each insert of another process moves the partition to it, which costs some ten
milliseconds. A process reads what others have written with a delay of at most REFRESH_S.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    DataError,
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    ProcessRecorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic

from headrace.errors import HeadraceError
from headrace.events.errors import InvalidEvent
from headrace.events.recorder_log import AlreadyRecorded, Entry, RecorderDraft, RecorderLog, Tracked
from headrace.kafka.cluster import Cluster
from headrace.kafka.settings import client_settings

R = TypeVar("R", bound="HeadraceRecorder")

REFRESH_S = 0.05
"""How often the events of other processes are looked for, while this one reads."""

TIMEOUT_S = 30.0
"""How long a broker may be unavailable before a call fails."""

TOPIC_VARIABLE = "HEADRACE_EVENTS_TOPIC"
BOOTSTRAP_VARIABLE = "HEADRACE_BOOTSTRAP"


@contextlib.contextmanager
def _library_errors() -> Iterator[None]:
    """Turn the errors of Headrace into those that the library's users expect."""
    try:
        yield
    except AlreadyRecorded as error:
        raise IntegrityError(str(error)) from error
    except InvalidEvent as error:
        raise DataError(str(error)) from error
    except HeadraceError as error:
        raise OperationalError(str(error)) from error


class HeadraceRecorder:
    """What all recorders share: the log. Recorders of one topic in one process share the same one."""

    def __init__(self, log: RecorderLog) -> None:
        self._log = log
        self._refreshed_at_s = float("-inf")

    def _insert(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        """The notification ids. All are recorded, or none."""

        def work(draft: RecorderDraft) -> list[int]:
            if tracking is not None:
                draft.track(
                    Tracked(application=tracking.application_name, notification_id=tracking.notification_id)
                )
            return [draft.insert(_entry(event)) for event in stored_events]

        with _library_errors():
            return self._log.transact(work)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Hold the log, which is at most REFRESH_S old."""
        with _library_errors(), self._log.lock:
            if time.monotonic() > self._refreshed_at_s + REFRESH_S:
                self._log.refresh()
                self._refreshed_at_s = time.monotonic()
            yield


class HeadraceAggregateRecorder(HeadraceRecorder, AggregateRecorder):
    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        self._insert(stored_events, kwargs.get("tracking"))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        with self._reading():
            found = self._log.database.of_originator(
                str(originator_id), gt=gt, lte=lte, desc=desc, limit=limit
            )
        return [
            StoredEvent(
                originator_id=_originator_id(each),
                originator_version=each.version,
                topic=each.type,
                state=each.state,
            )
            for each in found
        ]


class HeadraceApplicationRecorder(HeadraceAggregateRecorder, ApplicationRecorder):
    def __init__(self, log: RecorderLog) -> None:
        super().__init__(log)
        self._listeners: set[threading.Event] = set()

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        numbers = self._insert(stored_events, kwargs.get("tracking"))
        for listener in tuple(self._listeners):
            listener.set()
        return numbers

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        first = 1 if start is None else start + (not inclusive_of_start)
        with self._reading():
            found = self._log.database.of_sequence(first=first, last=stop, limit=limit, types=topics)
        return [
            Notification(
                id=each.number,
                originator_id=_originator_id(each),
                originator_version=each.version,
                topic=each.type,
                state=each.state,
            )
            for each in found
        ]

    def max_notification_id(self) -> int | None:
        with self._reading():
            return self._log.database.last_number() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> HeadraceSubscription:
        return HeadraceSubscription(recorder=self, gt=gt, topics=topics)

    def listen(self, event: threading.Event) -> None:
        self._listeners.add(event)

    def unlisten(self, event: threading.Event) -> None:
        self._listeners.discard(event)


class HeadraceSubscription(ListenNotifySubscription[HeadraceApplicationRecorder]):
    """Is notified by inserts of this recorder, and looks for those of others every REFRESH_S."""

    def __init__(
        self, recorder: HeadraceApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()
    ) -> None:
        self._ended = threading.Event()  # before the thread of the base class, which may stop this
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._recorder.listen(self._has_been_notified)
        threading.Thread(target=self._tick, name="headrace-subscription", daemon=True).start()

    def stop(self) -> None:
        super().stop()
        self._ended.set()
        self._recorder.unlisten(self._has_been_notified)

    def _tick(self) -> None:
        while not self._ended.wait(REFRESH_S):
            self._has_been_notified.set()


class HeadraceTrackingRecorder(HeadraceRecorder, TrackingRecorder):
    def insert_tracking(self, tracking: Tracking) -> None:
        self._insert((), tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        with self._reading():
            found = self._log.database.tracked(application_name)
            return None if found is None else found[0]


class HeadraceProcessRecorder(HeadraceTrackingRecorder, HeadraceApplicationRecorder, ProcessRecorder):
    """Events and tracked positions in one log: an insert with a `tracking` records both, or none."""


class HeadraceFactory(InfrastructureFactory[HeadraceTrackingRecorder]):
    """Creates the recorders of an application."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        bootstrap = client_settings(self.env.get(BOOTSTRAP_VARIABLE)).bootstrap
        self._cluster = Cluster(bootstrap, timeout_s=TIMEOUT_S)
        self._logs: dict[str, RecorderLog] = {}

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        return HeadraceAggregateRecorder(self._log(purpose))

    def application_recorder(self) -> ApplicationRecorder:
        return self._class(self.APPLICATION_RECORDER_TOPIC, HeadraceApplicationRecorder)(self._log("events"))

    def tracking_recorder(
        self, tracking_recorder_class: type[HeadraceTrackingRecorder] | None = None
    ) -> HeadraceTrackingRecorder:
        chosen = tracking_recorder_class or self._class(
            self.TRACKING_RECORDER_TOPIC, HeadraceTrackingRecorder
        )
        return chosen(self._log("tracking"))

    def process_recorder(self) -> ProcessRecorder:
        return self._class(self.PROCESS_RECORDER_TOPIC, HeadraceProcessRecorder)(self._log("events"))

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def _log(self, purpose: str) -> RecorderLog:
        """The log of "events", "snapshots" or "tracking"; each has a topic of its own."""
        name = self.env.get(TOPIC_VARIABLE) or f"{(self.env.name or 'application').lower()}.events"
        topic = name if purpose == "events" else f"{name}.{purpose}"
        if topic not in self._logs:
            with _library_errors():
                self._logs[topic] = RecorderLog(self._cluster, topic, timeout_s=TIMEOUT_S)
        return self._logs[topic]

    def _class(self, variable: str, default: type[R]) -> type[R]:
        named = self.env.get(variable)
        chosen: type[R] = resolve_topic(named) if named else default
        assert issubclass(chosen, default), chosen
        return chosen


def _entry(event: StoredEvent) -> Entry:
    return Entry(
        originator_id=str(event.originator_id),
        is_uuid=isinstance(event.originator_id, UUID),
        version=event.originator_version,
        type=event.topic,
        state=bytes(event.state),
    )


def _originator_id(entry: Entry) -> UUID | str:
    return UUID(entry.originator_id) if entry.is_uuid else entry.originator_id
