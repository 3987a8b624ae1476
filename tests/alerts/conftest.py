"""What the tests of alerts share. One process runs the alerts of a cluster, so each test has a broker of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import headrace
from headrace.alerts.catalog import Alerts, new_id
from headrace.alerts.definition import Alert, Target
from headrace.alerts.history import HistoryEvent, read_history
from headrace.alerts.key_state import Rule
from headrace.alerts.notifying import NotifyRule
from headrace.alerts.runner import AlertsRun
from headrace.alerts.state_log import Stored, read_state
from headrace.clock import SystemClock
from headrace.kafka.cluster import Cluster
from tests.alerts.servers import HttpServer, MailServer
from tests.compatibility.brokers import running_broker

WAIT_S = 60.0

QUICK = NotifyRule(group_wait_ms=0, group_interval_ms=0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.02)


class Ahead(SystemClock):
    """The clock, which a test sets forward."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Lab:
    """A broker, a data folder, and a runner that a test starts and stops."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.alerts = Alerts(folder)
        self.cluster = Cluster(bootstrap, timeout_s=30)
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 1})
        self.failure: BaseException | None = None

    def topic(self, name: str = "logs", partitions: int = 1) -> str:
        self.cluster.create_topic(name, partitions=partitions)
        return name

    def write(self, *records: dict[str, Any], topic: str = "logs", at_ms: int = 0) -> None:
        for record in records:
            self._producer.produce(topic, json.dumps(record), timestamp=at_ms)
        assert self._producer.flush(WAIT_S) == 0

    def write_bytes(self, *values: bytes, topic: str = "logs") -> None:
        for value in values:
            self._producer.produce(topic, value)
        assert self._producer.flush(WAIT_S) == 0

    def add(self, name: str = "errors", *to: str, **fields: Any) -> Alert:
        alert = Alert(
            **{
                "name": name,
                "id": new_id(),
                "topic": "logs",
                "created_ms": int(time.time() * 1000),
                "when": "level = 'ERROR'",
                "per": ("service",),
                "notify": QUICK,
                "to": tuple(Target(id=new_id(), address=each) for each in to),
                **fields,
            }
        )
        self.alerts.add(alert)
        return alert

    @contextmanager
    def running(self, **options: Any) -> Iterator[AlertsRun]:
        stopping, ready = threading.Event(), threading.Event()
        run = AlertsRun(
            self.alerts,
            Cluster(self.bootstrap, timeout_s=10),
            is_stopping=stopping.is_set,
            on_ready=lambda _: ready.set(),
            **{"pause_s_min": 0.05, **options},
        )

        def work() -> None:
            try:
                run.run()
            except BaseException as error:
                self.failure = error

        thread = threading.Thread(target=work)
        thread.start()
        try:
            wait_until(lambda: ready.is_set() or not thread.is_alive())
            yield run
        finally:
            stopping.set()
            thread.join()

    def history(self, alert: str = "errors") -> list[HistoryEvent]:
        return read_history(self.cluster, wanted=lambda each: each.alert == alert, limit=100_000)

    def events(self, alert: str = "errors") -> list[str]:
        return [each.event.value for each in self.history(alert)]

    def stored(self) -> Stored:
        return read_state(self.cluster)


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    if request.config.getoption("--bootstrap-of") == "headrace":
        with headrace.Broker(data_dir=tmp_path / "broker") as broker:
            yield Lab(broker.bootstrap, tmp_path / "data")
        return
    with running_broker("kafka", tmp_path) as kafka:
        yield Lab(kafka.bootstrap, tmp_path / "data")


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


def rule(**fields: Any) -> Rule:
    return Rule(**fields)


def pairs(events: Sequence[HistoryEvent]) -> list[tuple[str, int | None]]:
    return [(each.event.value, each.firing) for each in events]
