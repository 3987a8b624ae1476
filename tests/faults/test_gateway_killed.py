"""A broker that is killed and restarted under the gateway: nothing acknowledged is lost, and streams continue."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headrace.kafka.cluster import Cluster
from tests.faults.broker_process import BrokerProcess
from tests.gateway.conftest import Serving

pytestmark = pytest.mark.timeout(180)

ROUNDS = 2
BATCHES_BEFORE_KILL = 15
TOPIC = "orders"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def serving(broker: BrokerProcess) -> Iterator[Serving]:
    Cluster(broker.bootstrap, timeout_s=15).create_topic(TOPIC, partitions=2)
    serving = Serving(broker.bootstrap)
    serving.start()
    yield serving
    serving.stop()


class Writer(threading.Thread):
    """Posts batches one after the other, and remembers those that were acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.acknowledged: list[int] = []
        self.is_stopped = False
        self._client = httpx.Client(base_url=url, timeout=60)

    def run(self) -> None:
        number = 0
        while not self.is_stopped:
            batch = [*range(number, number + 10)]
            number += 10
            response = self._client.post(f"/topics/{TOPIC}", json=batch)
            if response.status_code == 200:
                self.acknowledged += batch

    def wait_for(self, count: int) -> None:
        deadline_s = time.monotonic() + 60
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)


class Follower(threading.Thread):
    """Keeps one stream open all the time."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, int]] = []
        self._serving = serving

    def run(self) -> None:
        with self._serving.events(f"/topics/{TOPIC}/stream", **{"from": "earliest"}) as events:
            for each in events:
                record = json.loads(each.data)
                self.seen.append((record["partition"], record["offset"]))
                if record["value"] == "last":
                    return


def test_acknowledged_events_survive_the_broker_and_streams_continue(
    broker: BrokerProcess, serving: Serving
) -> None:
    writer, follower = Writer(serving.url), Follower(serving)
    follower.start()
    writer.start()
    try:
        for _ in range(ROUNDS):
            writer.wait_for(10 * BATCHES_BEFORE_KILL)
            broker.kill()
            broker.start()
        writer.wait_for(10 * BATCHES_BEFORE_KILL)
    finally:
        writer.is_stopped = True
        writer.join()
    for partition in range(2):
        response = serving.post(f"/topics/{TOPIC}/partitions/{partition}", '"last"', "application/json")
        assert response.status_code == 200
        if partition == 0:
            deadline_s = time.monotonic() + 60
            while follower.is_alive():
                assert time.monotonic() < deadline_s, "the stream does not continue"
                time.sleep(0.01)
    records = serving.records(TOPIC, limit=10_000)
    counts = Counter(each["value"] for each in records)
    assert [each for each in writer.acknowledged if counts[each] != 1] == []
    stored = {(each["partition"], each["offset"]) for each in records}
    assert len(follower.seen) == len(set(follower.seen)), "a record came twice"
    in_first = {each for each in stored if each[0] == 0}
    assert in_first <= set(follower.seen) <= stored
