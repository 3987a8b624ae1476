"""Webhooks while broker and gateway are killed or stall: what is answered 2xx is in the topic, and in it once."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from headrace.clock import SystemClock
from headrace.edges.settings import EdgeSettings, Policy
from headrace.kafka.cluster import Cluster
from headrace.testing.ports import free_port
from headrace.webhooks.incoming.sample import sample_of
from headrace.webhooks.incoming.source import Source
from tests.faults.broker_process import BrokerProcess
from tests.gateway.conftest import Serving
from tests.webhooks.conftest import events_in
from tests.webhooks.incoming.receiving import stored
from tests.webhooks.incoming.sending import source

pytestmark = pytest.mark.timeout(180)

WAIT_S = 60.0
SENDERS = 4
SENT_AGAIN_AFTER = 10
TOPIC = "pushes"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", default_partitions=2) as broker:
        yield broker


class GatewayProcess:
    """`headrace gateway`, on the same port each time."""

    def __init__(self, data_dir: Path, bootstrap: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "headrace", "gateway", "--data-dir", str(data_dir)]
        self._command += ["--listen", f"127.0.0.1:{self.port}", "--bootstrap", bootstrap]
        self._log = data_dir / "gateway.log"
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"headrace gateway ready at {self.url}\n", (
            self._log.read_text()
        )
        return self.process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Sender(threading.Thread):
    """As providers do it: each delivery is signed and sent until the answer is 2xx, always with the same id. It is sent
    once more after some others, as if the answer was lost."""

    def __init__(self, by: Source, url: str, name: str) -> None:
        super().__init__()
        self.done: list[str] = []
        self.is_stopped = False
        self._by, self._url, self._name = by, f"{url}/webhooks/{by.name}", name

    def run(self) -> None:
        with httpx.Client(timeout=WAIT_S) as client:
            for number in itertools.count():
                if self.is_stopped:
                    return
                self._deliver(client, f"{self._name}-{number}")
                self.done.append(f"{self._name}-{number}")
                if number >= SENT_AGAIN_AFTER:
                    self._deliver(client, f"{self._name}-{number - SENT_AGAIN_AFTER}")

    def _deliver(self, client: httpx.Client, message_id: str) -> None:
        while True:
            sent = sample_of(self._by, message_id=message_id, now_ms=SystemClock().now_ms())
            with contextlib.suppress(httpx.TransportError):
                response = client.post(self._url, content=sent.body, headers=dict(sent.headers))
                assert response.status_code in (200, 429, 503), response.text
                if response.status_code == 200:
                    return
            time.sleep(0.02)


@contextlib.contextmanager
def sending(by: Source, url: str) -> Iterator[list[Sender]]:
    senders = [Sender(by, url, f"s{number}") for number in range(SENDERS)]
    for each in senders:
        each.start()
    try:
        yield senders
    finally:
        for each in senders:
            each.is_stopped = True
        for each in senders:
            each.join()


def wait_for_more(senders: list[Sender], count: int) -> None:
    deadline_s = time.monotonic() + WAIT_S
    wanted = sum(len(each.done) for each in senders) + count
    while sum(len(each.done) for each in senders) < wanted:
        assert time.monotonic() < deadline_s, "no request is accepted any more"
        time.sleep(0.005)


def ids_in(bootstrap: str, topic: str) -> Counter[str]:
    found = events_in(Cluster(bootstrap, timeout_s=30), topic)
    return Counter(headers["webhook-id"].decode() for _value, headers in found)


def test_every_accepted_delivery_is_in_the_topic_once_although_gateway_and_broker_are_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    by = stored(tmp_path, source(topic=TOPIC, rate_per_s_max=10_000, ids_max=10_000_000, tolerance_s=60))
    gateway = GatewayProcess(tmp_path, broker.bootstrap)
    try:
        with sending(by, gateway.url) as senders:
            for _ in range(3):
                wait_for_more(senders, 60)
                gateway.kill()
                gateway.start()
                wait_for_more(senders, 60)
                broker.kill()
                broker.start()
            wait_for_more(senders, 60)
            gateway.kill()
            broker.kill()
            broker.start()
            gateway.start()
            wait_for_more(senders, 60)
    finally:
        gateway.kill()
    found = ids_in(broker.bootstrap, TOPIC)
    done = [message_id for each in senders for message_id in each.done]
    assert {message_id: found[message_id] for message_id in done if found[message_id] != 1} == {}
    assert set(found) == set(done)


@pytest.mark.parametrize("policy", ["block", "drop-newest", "drop-oldest", "buffer"])
def test_stalled_broker_is_429_or_503_and_repeated_requests_are_events_once(
    broker: BrokerProcess, tmp_path: Path, policy: Policy
) -> None:
    """Requests fill the memory of the intake; later ones find no room. A buffer takes all of them."""
    by = stored(tmp_path, source(topic=TOPIC))
    edge = EdgeSettings(
        overload=policy, data_dir=tmp_path, memory_bytes_max=1 << 20, in_flight_bytes_max=1 << 20
    )
    serving = Serving(broker.bootstrap, edge=edge, webhook_answer_ms_max=1_000)
    serving.start()

    def deliver(number: int) -> httpx.Response:
        sent = sample_of(by, message_id=f"m{number}", now_ms=SystemClock().now_ms(), body=b"x" * 100_000)
        return serving.client.post("/webhooks/sample", content=sent.body, headers=dict(sent.headers))

    try:
        assert deliver(0).status_code == (202 if policy == "buffer" else 200)
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(60) as threads:
                stalled = list(threads.map(deliver, range(1, 61)))
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        if policy == "buffer":
            assert {each.status_code for each in stalled} == {202}
        else:
            assert {each.status_code for each in stalled} == {429, 503}
            assert all(int(each.headers["Retry-After"]) >= 1 for each in stalled)
        deadline_s = time.monotonic() + WAIT_S
        for number in range(1, 61):
            while deliver(number).status_code != 200:
                assert time.monotonic() < deadline_s
    finally:
        serving.stop()
    assert ids_in(broker.bootstrap, TOPIC) == Counter(f"m{number}" for number in range(61))
