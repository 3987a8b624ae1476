"""Streams of the gateway with the EventSource of npm and that of Chromium.

They resume by themselves when the gateway was killed and is there again: no record is missing, and none comes twice.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from tests.compatibility.gateway_process import GatewayProcess
from tests.compatibility.npm import npm_folder

pytestmark = pytest.mark.timeout(300)

EVENT_SOURCE = ("eventsource", "4.1.1")
CHROMIUM = Path("/usr/bin/chromium")
WAIT_S = 60.0
PART = 100
"""Records that are written before the gateway is killed, while it is away, and after it has returned."""

FOLLOW = """
import { EventSource } from 'eventsource'
const source = new EventSource(process.argv[2])
source.onmessage = event => console.log(event.data)
"""

Seen = list[tuple[int, int]]
"""Partition and offset of each record, as they came."""


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"sse-{uuid.uuid4().hex[:12]}"
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=3)
    return name


@pytest.fixture
def gateway(bootstrap: str) -> Iterator[GatewayProcess]:
    with GatewayProcess(bootstrap) as gateway:
        yield gateway


@pytest.fixture
def write(bootstrap: str, topic: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write() -> None:
        for number in range(PART):
            producer.produce(topic, str(number), partition=number % 3)
        assert producer.flush(30) == 0

    return write


def wait_for(count: int, seen: Callable[[], Seen]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while len(seen()) < count:
        assert time.monotonic() < deadline_s, f"{len(seen())} of {count} records came"
        time.sleep(0.02)


def check_resumption(gateway: GatewayProcess, write: Callable[[], None], seen: Callable[[], Seen]) -> None:
    """With a client that follows the topic from its first record on."""
    write()
    wait_for(PART // 2, seen)
    gateway.kill()
    write()
    gateway.start()
    write()
    wait_for(3 * PART, seen)
    found = seen()
    assert len(found) == len(set(found)) == 3 * PART
    for partition in range(3):
        offsets = [offset for number, offset in found if number == partition]
        assert offsets == sorted(offsets)


class NodeClient:
    """The script above in Node.js, and what it printed."""

    def __init__(self, url: str) -> None:
        folder = npm_folder(*EVENT_SOURCE)
        (folder / "follow.mjs").write_text(FOLLOW)
        self.process = subprocess.Popen(
            ["node", "follow.mjs", url], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        self._seen: Seen = []
        threading.Thread(target=self._read, daemon=True).start()

    def seen(self) -> Seen:
        return [*self._seen]

    def _read(self) -> None:
        for line in self.process.stdout or ():
            record = json.loads(line)
            self._seen.append((record["partition"], record["offset"]))


def test_eventsource_of_npm_resumes_when_the_gateway_was_killed(
    gateway: GatewayProcess, topic: str, write: Callable[[], None]
) -> None:
    client = NodeClient(f"{gateway.url}/topics/{topic}/stream?from=earliest")
    with client.process:
        try:
            check_resumption(gateway, write, client.seen)
        finally:
            client.process.kill()


def test_eventsource_of_chromium_resumes_when_the_gateway_was_killed(
    gateway: GatewayProcess, topic: str, write: Callable[[], None]
) -> None:
    if not CHROMIUM.exists():
        pytest.skip(f"needs Chromium at {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.goto(f"{gateway.url}/openapi.json")  # any page of the gateway: others may not read it
            page.evaluate(
                """path => {
                    window.seen = []
                    const source = new EventSource(path)
                    source.onmessage = event => {
                        const record = JSON.parse(event.data)
                        window.seen.push([record.partition, record.offset])
                    }
                }""",
                f"/topics/{topic}/stream?from=earliest",
            )
            check_resumption(
                gateway, write, lambda: [(each[0], each[1]) for each in page.evaluate("window.seen")]
            )
        finally:
            browser.close()
