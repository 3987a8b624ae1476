"""`headrace gateway`, as a process of its own."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from headrace.kafka.cluster import Cluster
from tests.cli.conftest import Headrace, next_line, started
from tests.edges.conftest import values_in, wait_until
from tests.faults.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(120)

READY = "headrace gateway ready at "


def test_topics_are_served_until_it_is_stopped(environment: dict[str, str], topic: str) -> None:
    with started("gateway", "--listen", "127.0.0.1:0", environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        written = httpx.post(f"{address}/topics/{topic}", json={"a": 1}, timeout=60)
        assert written.status_code == 200
        (record,) = httpx.get(f"{address}/topics/{topic}/records", timeout=60).json()["records"]
        assert record["value"] == {"a": 1}


def test_schemas_are_registered_beside_topics(environment: dict[str, str]) -> None:
    subject = f"{uuid.uuid4()}-value"
    with started("gateway", "--listen", "127.0.0.1:0", environment=environment) as process:
        client = SchemaRegistryClient({"url": next_line(process).removeprefix(READY).strip()})
        number = client.register_schema(subject, Schema('"string"', "AVRO"))
        assert client.get_latest_version(subject).schema_id == number


def test_gateway_without_a_registry_serves_topics_only(environment: dict[str, str]) -> None:
    options = ("--listen", "127.0.0.1:0", "--set", "schema_registry=false")
    with started("gateway", *options, environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        assert httpx.get(f"{address}/subjects", timeout=60).status_code == 404
        assert httpx.get(f"{address}/topics", timeout=60).status_code == 200


def test_gateway_with_another_registry_uses_that_one(environment: dict[str, str], topic: str) -> None:
    with started("gateway", "--listen", "127.0.0.1:0", environment=environment) as other:
        url = next_line(other).removeprefix(READY).strip()
        options = ("--listen", "127.0.0.1:0", "--registry", url)
        with started("gateway", *options, environment=environment) as process:
            address = next_line(process).removeprefix(READY).strip()
            body = {"value_schema": '"string"', "records": [{"value": "a"}]}
            headers = {"Content-Type": "application/vnd.kafka.avro.v2+json"}
            written = httpx.post(
                f"{address}/topics/{topic}", content=json.dumps(body), headers=headers, timeout=60
            )
            assert written.status_code == 200, written.text
            assert httpx.get(f"{address}/subjects", timeout=60).status_code == 404
            found = httpx.get(f"{address}/catalog", params={"name": topic}, timeout=60).json()
            assert [each["subject"] for each in found["schemas"]] == [f"{topic}-value"]
        assert f"{topic}-value" in httpx.get(f"{url}/subjects", timeout=60).json()


def test_settings_come_from_options(environment: dict[str, str], topic: str) -> None:
    options = (
        "--listen",
        "127.0.0.1:0",
        "--set",
        "body_bytes_max=10",
        "--cors-origin",
        "https://shop.example",
    )
    with started("gateway", *options, environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        rejected = httpx.post(f"{address}/topics/{topic}", json={"a": "x" * 20}, timeout=60)
        assert rejected.status_code == 413
        page = httpx.get(f"{address}/topics", headers={"Origin": "https://shop.example"}, timeout=60)
        assert page.headers["access-control-allow-origin"] == "https://shop.example"


def test_rate_is_that_of_the_address_of_the_connection_whatever_its_requests_say(
    environment: dict[str, str],
) -> None:
    options = ("--listen", "127.0.0.1:0", "--set", "requests_per_s_max=1", "--set", "requests_burst=2")
    with started("gateway", *options, environment=environment) as process:
        address = next_line(process).removeprefix(READY).strip()
        with httpx.Client(base_url=address, timeout=60) as client:
            statuses = [
                client.get("/brokers", headers={"X-Forwarded-For": f"192.0.2.{number}"}).status_code
                for number in range(20)
            ]
    assert 429 in statuses


def test_buffered_records_survive_a_killed_gateway_and_an_unavailable_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", default_partitions=1) as broker:
        Cluster(broker.bootstrap, timeout_s=30).create_topic("clicks", partitions=1)
        environment = {**os.environ, "HEADRACE_BOOTSTRAP": broker.bootstrap}
        options = ("--listen", "127.0.0.1:0", "--overload", "buffer", "--data-dir", str(tmp_path / "data"))
        with started("gateway", *options, environment=environment) as process:
            url = f"{next_line(process).removeprefix(READY).strip()}/topics/clicks"
            assert httpx.post(url, json=0, timeout=60).status_code == 202
            wait_until(lambda: values_in(broker.bootstrap, "clicks") == [b"0"])
            broker.kill()
            assert {httpx.post(url, json=number, timeout=60).status_code for number in (1, 2)} == {202}
            process.kill()
        broker.start()
        with started("gateway", *options, environment=environment) as process:
            next_line(process)
            wait_until(lambda: [*dict.fromkeys(values_in(broker.bootstrap, "clicks"))] == [b"0", b"1", b"2"])


def test_wrong_start_is_an_error(headrace: Headrace) -> None:
    assert "--insecure" in headrace("gateway", "--listen", "0.0.0.0:0", code=1).err
    assert "is unknown" in headrace("gateway", "--set", "ports=1", code=1).err
    assert "not the address of a schema registry" in headrace("gateway", "--registry", "here", code=1).err
    assert "is too small" in headrace("gateway", "--set", "records_max=0", code=1).err
