"""Queues over HTTP while the broker or the gateway is killed: no message is lost, and no accepted one comes again."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.kafka.share_groups import describe_share_group
from headrace.testing.ports import free_port
from tests.faults.broker_process import BrokerProcess
from tests.gateway.conftest import Serving
from tests.gateway.queue_worker import Worker

pytestmark = pytest.mark.timeout(180)

KILLS = 2
MESSAGES = 600
WORKERS = 3
TOPIC, GROUP = "emails", "senders"
SETTLE_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        Cluster(broker.bootstrap, timeout_s=15).create_topic(TOPIC, partitions=2)
        yield broker


@pytest.fixture
def serving(broker: BrokerProcess) -> Iterator[Serving]:
    serving = Serving(broker.bootstrap)
    serving.start()
    yield serving
    serving.stop()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + SETTLE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.01)


class Working(threading.Thread):
    """Receives and accepts, and keeps what was confirmed; whatever fails is tried again."""

    def __init__(self, url: str, log: Log) -> None:
        super().__init__(daemon=True)
        self._worker = Worker(url, TOPIC, GROUP)
        self._log = log
        self.is_stopped = False

    def run(self) -> None:
        while not self.is_stopped:
            response = self._worker.ask(5, "1s")
            if response.status_code != 200:
                assert response.status_code == 503, response.text
                continue
            messages = response.json()["messages"]
            if not messages:
                continue
            self._log.delivered([each["value"] for each in messages])
            results = self._worker.accept(*messages).json()["results"]
            for message, result in zip(messages, results, strict=True):
                self._log.answered(message["value"], is_confirmed="error_code" not in result)


class Log:
    def __init__(self) -> None:
        self.confirmed: set[int] = set()
        self.unconfirmed: set[int] = set()
        """Accepted, and the answer was lost with the broker: it may have taken them."""
        self.late: list[int] = []
        self.delivered_ones: set[int] = set()
        self._lock = threading.Lock()

    def delivered(self, values: list[int]) -> None:
        with self._lock:
            self.delivered_ones.update(values)
            self.late += [each for each in values if each in self.confirmed]

    def answered(self, value: int, *, is_confirmed: bool) -> None:
        with self._lock:
            (self.confirmed if is_confirmed else self.unconfirmed).add(value)


def is_done(broker: BrokerProcess) -> bool:
    """Whether the broker has no message left for the group. One that was just started may still load groups."""
    with contextlib.suppress(RequestFailed):
        return describe_share_group(("127.0.0.1", broker.port), GROUP, SETTLE_S).not_done == 0
    return False


def test_messages_survive_the_broker_and_accepted_ones_never_come_again(
    broker: BrokerProcess, serving: Serving
) -> None:
    assert serving.client.post(f"/topics/{TOPIC}", json=[*range(MESSAGES)]).status_code == 200
    log = Log()
    workers = [Working(serving.url, log) for _ in range(WORKERS)]
    for each in workers:
        each.start()
    try:
        for kill in range(1, KILLS + 1):
            wait_until(lambda share=kill: len(log.confirmed) > MESSAGES * share // (KILLS + 2))  # type: ignore[misc]
            broker.kill()
            broker.start()
        wait_until(lambda: is_done(broker))
    finally:
        for each in workers:
            each.is_stopped = True
            each.join()
    assert log.late == []
    assert log.delivered_ones == log.confirmed | log.unconfirmed == {*range(MESSAGES)}


def test_messages_of_a_gateway_that_is_killed_are_delivered_by_another(
    broker: BrokerProcess, serving: Serving
) -> None:
    port = free_port()
    command = [sys.executable, "-m", "headrace", "gateway", "--bootstrap", broker.bootstrap]
    command += ["--listen", f"127.0.0.1:{port}", "--set", "schema_registry=false"]
    # Of one partition: the partitions of members that were killed get new members when their sessions have timed out.
    serving.cluster.create_topic("one", partitions=1)
    serving.client.post("/topics/one", json=[1, 2, 3])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        try:
            assert killed.stdout is not None
            assert killed.stdout.readline().startswith("headrace gateway ready")
            first = Worker(f"http://127.0.0.1:{port}", "one", GROUP)
            held = [each for _ in range(3) for each in first.receive()]
            assert first.accept(held[0]).status_code == 200
        finally:
            killed.kill()
    other = Worker(serving.url, "one", GROUP)
    again = other.receive_all(2)
    assert {each["value"] for each in again} == {each["value"] for each in held[1:]}
    assert {each["delivery_count"] for each in again} == {2}
    foreign = other.accept(held[1])
    assert (foreign.status_code, foreign.json()["results"][0]["error_code"]) == (409, 40901)
    assert other.accept(*again).status_code == 200


def test_broker_that_is_unavailable_is_an_error_with_a_time_to_come_back(
    broker: BrokerProcess, serving: Serving
) -> None:
    worker = Worker(serving.url, TOPIC, GROUP)
    serving.client.post(f"/topics/{TOPIC}", json=[1])
    (message,) = worker.receive()
    broker.kill()
    responses: list[httpx.Response] = [worker.ask(wait="2s"), worker.accept(message)]
    broker.start()
    for each in responses:
        assert (each.status_code, int(each.headers["Retry-After"]) > 0) == (503, True), each.text
    (again,) = worker.receive_all(1)
    assert again["value"] == 1
    assert worker.accept(again).status_code == 200
