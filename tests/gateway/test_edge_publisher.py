"""Writing over HTTP while the broker stalls or is unavailable, by each overload policy."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.edges.settings import EdgeSettings, Policy
from headrace.gateway.formats import REST_JSON_RECORDS
from headrace.kafka.cluster import Cluster
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess
from tests.gateway.conftest import Serving

pytestmark = pytest.mark.timeout(120)

MB = 1024 * 1024
TOPIC = "orders"
REQUESTS = 60
FILLER = "." * 100_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as broker:
        Cluster(broker.bootstrap, timeout_s=15).create_topic(TOPIC, partitions=1)
        yield broker


@contextlib.contextmanager
def serving(broker: BrokerProcess, folder: Path, policy: Policy, **limits: Any) -> Iterator[Serving]:
    stop_s = limits.pop("stop_s", 60)
    edge = EdgeSettings(
        overload=policy,
        data_dir=folder / "data",
        memory_bytes_max=MB,
        in_flight_bytes_max=MB,
        stop_s=stop_s,
    )
    gateway = Serving(broker.bootstrap, edge=edge, **limits)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


def post(gateway: Serving, number: int, text: str = FILLER) -> httpx.Response:
    return gateway.post(f"/topics/{TOPIC}", json.dumps([number, text]), "application/x-ndjson")


def numbers_in(broker: BrokerProcess) -> list[int]:
    return [json.loads(value)[0] for value in values_in(broker.bootstrap, TOPIC)]


@pytest.mark.parametrize("policy", ["drop-newest", "drop-oldest", "block"])
def test_sender_is_pushed_back_while_the_broker_is_stalled_and_what_is_200_is_in_the_topic_once(
    policy: Policy, broker: BrokerProcess, tmp_path: Path
) -> None:
    with (
        serving(broker, tmp_path, policy, unacknowledged_records_max=20) as gateway,
        ThreadPoolExecutor(REQUESTS) as threads,
    ):
        assert post(gateway, 0).status_code == 200
        broker.process.send_signal(signal.SIGSTOP)
        try:
            posted = [threads.submit(post, gateway, number) for number in range(1, REQUESTS + 1)]
            wait_until(lambda: sum(each.done() for each in posted) >= REQUESTS // 2)
            pushed_back = {each.result().status_code for each in posted if each.done()}
        finally:
            broker.process.send_signal(signal.SIGCONT)
        responses = [each.result() for each in posted]
        metrics = gateway.get("/metrics").text
    assert pushed_back == {429}
    rejected = [each for each in responses if each.status_code != 200]
    assert {each.status_code for each in rejected} == {429}
    assert all(int(each.headers["Retry-After"]) in range(1, 6) for each in rejected)
    accepted = [0, *(number for number, each in enumerate(responses, 1) if each.status_code == 200)]
    assert sorted(numbers_in(broker)) == accepted
    assert 1 < len(accepted) <= REQUESTS // 2
    if policy != "block":
        reason = policy.removeprefix("drop-")
        dropped = f'headrace_edge_dropped_total{{edge="gateway",reason="{reason}"}} {len(rejected)}.0'
        assert dropped in metrics
        (offset,) = rejected[0].json()["offsets"]
        assert (offset["error_code"], offset["error"]) == (2, f"dropped: {reason}")


def test_buffered_records_are_taken_without_a_broker_and_survive_the_gateway(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with serving(broker, tmp_path, "buffer", stop_s=0, metadata_ms=0) as gateway:
        first = post(gateway, 0)
        wait_until(lambda: numbers_in(broker) == [0])
        broker.kill()
        responses = [post(gateway, number) for number in (1, 2)]
    broker.start()
    assert {each.status_code for each in (first, *responses)} == {202}
    assert responses[0].json()["offsets"] == [
        {"partition": None, "offset": None, "error_code": None, "error": None}
    ]
    assert responses[0].json()["position"] is None
    with serving(broker, tmp_path, "buffer"):
        wait_until(lambda: [*dict.fromkeys(numbers_in(broker))] == [0, 1, 2])


def test_full_buffer_pushes_back(broker: BrokerProcess, tmp_path: Path) -> None:
    edge = EdgeSettings(
        overload="buffer", data_dir=tmp_path / "data", buffer_bytes_max=MB, in_flight_bytes_max=MB, stop_s=60
    )
    gateway = Serving(broker.bootstrap, edge=edge)
    gateway.start()
    try:
        assert post(gateway, 0).status_code == 202
        broker.process.send_signal(signal.SIGSTOP)
        try:
            found = [post(gateway, number) for number in range(1, REQUESTS)]
        finally:
            broker.process.send_signal(signal.SIGCONT)
        taken = [0, *(number for number, each in enumerate(found, 1) if each.status_code == 202)]
        assert {each.status_code for each in found} == {202, 429}
        assert "Retry-After" in next(each for each in found if each.status_code == 429).headers
        wait_until(lambda: numbers_in(broker) == taken)
    finally:
        gateway.stop()


def test_record_that_the_broker_rejects_and_partitions_are_errors(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with serving(broker, tmp_path, "drop-newest", produce_ms_max=2_000) as gateway:
        body = json.dumps({"records": [{"value": 1, "partition": 0}]})
        for path, sent in ((f"/topics/{TOPIC}", body), (f"/topics/{TOPIC}/partitions/0", "[1]")):
            kind = REST_JSON_RECORDS if sent == body else "application/json"
            response = gateway.post(path, sent, kind)
            assert response.status_code == 400
            assert "--overload block" in response.json()["hint"]
        too_large = post(gateway, 1, "." * 2 * MB)
        assert too_large.status_code == 422
        assert "too large" in too_large.json()["message"]
        broker.process.send_signal(signal.SIGSTOP)
        try:
            late = post(gateway, 2)
        finally:
            broker.process.send_signal(signal.SIGCONT)
        assert (late.status_code, late.json()["message"]) == (
            503,
            "the broker did not acknowledge the records in time",
        )
