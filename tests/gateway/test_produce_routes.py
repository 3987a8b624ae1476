"""Writing over HTTP: the records are in the topic when the response is there."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.gateway.answers import REST_JSON
from headrace.gateway.formats import REST_BINARY_RECORDS, REST_JSON_RECORDS
from headrace.kafka.cluster import Cluster
from headrace.kafka.position import Position
from tests.faults.broker_process import BrokerProcess
from tests.gateway.conftest import NewTopic, Serve, Serving

pytestmark = pytest.mark.timeout(120)


def test_rest_proxy_request_gets_the_offset_of_each_record(gateway: Serving, topic: str) -> None:
    body = {"records": [{"value": {"a": 1}, "partition": 1}, {"key": "k", "value": 2, "partition": 1}]}
    response = gateway.post(f"/topics/{topic}", json.dumps(body), REST_JSON_RECORDS)
    assert (response.status_code, response.headers["content-type"]) == (200, REST_JSON)
    answer = response.json()
    assert answer["offsets"] == [
        {"partition": 1, "offset": 0, "error_code": None, "error": None},
        {"partition": 1, "offset": 1, "error_code": None, "error": None},
    ]
    assert answer["key_schema_id"] is answer["value_schema_id"] is None
    assert Position.from_token(answer["position"]) == Position({topic: {1: 2}})
    found = gateway.records(topic)
    assert [(each["key"], each["value"]) for each in found] == [(None, {"a": 1}), ('"k"', 2)]


def test_partition_of_the_path_is_that_of_all_records(gateway: Serving, topic: str) -> None:
    value = base64.b64encode(b"\xff\x00").decode()
    body = json.dumps({"records": [{"value": value}, {"value": None}]})
    response = gateway.post(f"/topics/{topic}/partitions/2", body, REST_BINARY_RECORDS)
    assert [each["partition"] for each in response.json()["offsets"]] == [2, 2]
    found = gateway.records(topic, format="base64")
    assert [(each["partition"], each["value"]) for each in found] == [(2, value), (2, None)]


@pytest.mark.parametrize(
    ("content_type", "body", "count"),
    [
        ("application/json; charset=utf-8", '{"a": 1}', 1),
        ("application/json", '[{"a": 1}, {"a": 1}]', 2),
        ("application/x-ndjson", '{"a": 1}\n{"a": 1}\n{"a": 1}', 3),
    ],
)
def test_plain_events_are_records(
    gateway: Serving, topic: str, content_type: str, body: str, count: int
) -> None:
    response = gateway.post(f"/topics/{topic}", body, content_type, params={"key": "k"})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert len(response.json()["offsets"]) == count
    found = gateway.records(topic)
    assert [(each["key"], each["value"]) for each in found] == [("k", {"a": 1})] * count


def test_cloud_event_is_a_record_of_the_kafka_binding(gateway: Serving, topic: str) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/s",
        "ce-type": "t",
        "content-type": "text/plain",
    }
    assert gateway.client.post(f"/topics/{topic}", content=b"hi", headers=headers).status_code == 200
    (found,) = gateway.records(topic, format="text")
    attributes = {each["name"]: each["value"] for each in found["headers"]}
    assert (found["value"], attributes["ce_id"], attributes["content-type"]) == ("hi", "7", "text/plain")


def test_equal_keys_go_to_the_partition_that_other_clients_choose(gateway: Serving, topic: str) -> None:
    lines = "\n".join(json.dumps({"user": f"user {each % 20}"}) for each in range(200))
    answer = gateway.post(f"/topics/{topic}?key_field=user", lines, "application/x-ndjson").json()
    partitions: dict[int, set[int]] = {}
    for index, each in enumerate(answer["offsets"]):
        partitions.setdefault(index % 20, set()).add(each["partition"])
    assert all(len(each) == 1 for each in partitions.values())
    assert set.union(*partitions.values()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("path", "content_type", "body", "status", "code"),
    [
        ("/partitions/3", REST_JSON_RECORDS, '{"records":[{"value":1}]}', 404, 40402),
        ("", REST_JSON_RECORDS, '{"records":[{"value":1,"partition":3}]}', 404, 40402),
        ("", REST_JSON_RECORDS, '{"records":[]}', 422, 422),
        ("", "application/json", "[]", 422, 422),
        ("", "application/x-ndjson", "\n", 422, 422),
        ("", "application/cloudevents-batch+json", "[]", 422, 422),
        ("", REST_JSON_RECORDS, "{", 422, 422),
        ("", "text/plain", "x", 415, 415),
        ("", "", "x", 415, 415),
        ("?keys=1", "application/json", "1", 400, 400),
        ("/partitions/x", "application/json", "1", 400, 400),
    ],
)
def test_wrong_request_writes_nothing(
    gateway: Serving, topic: str, path: str, content_type: str, body: str, status: int, code: int
) -> None:
    response = gateway.post(f"/topics/{topic}{path}", body, content_type)
    assert (response.status_code, response.json()["error_code"]) == (status, code)
    assert response.json()["hint"]
    assert gateway.records(topic) == []


def test_name_that_no_topic_can_have_is_rejected(gateway: Serving) -> None:
    assert gateway.post("/topics/a%20b", "1", "application/json").status_code == 400
    assert gateway.post(f"/topics/{'x' * 250}", "1", "application/json").status_code == 400


def test_record_that_the_broker_rejects_fails_the_request_and_names_it(
    gateway: Serving, new_topic: NewTopic
) -> None:
    topic = new_topic(1, **{"max.message.bytes": "1000"})
    body = json.dumps(["x" * 2_000_000])
    response = gateway.post(f"/topics/{topic}", body, "application/json")
    assert (response.status_code, response.json()["error_code"]) == (422, 422)
    (failed,) = response.json()["offsets"]
    assert failed["offset"] is None
    assert failed["error_code"] == 1
    assert "too large" in failed["error"]


def test_more_records_than_allowed_are_rejected(serve: Serve, topic: str) -> None:
    gateway = serve(records_max=2, unacknowledged_records_max=3)
    assert gateway.post(f"/topics/{topic}", "[1, 2]", "application/json").status_code == 200
    response = gateway.post(f"/topics/{topic}", "[1, 2, 3]", "application/json")
    assert (response.status_code, response.json()["message"]) == (422, "the body has more than 2 records")
    assert len(gateway.records(topic)) == 2


def test_request_beyond_the_bound_is_told_to_come_back(serve: Serve, topic: str) -> None:
    gateway = serve(unacknowledged_records_max=1)
    response = gateway.post(f"/topics/{topic}", "[1, 2]", "application/json")
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) in range(1, 6)


def test_clients_of_a_broker_that_is_unavailable_come_back_at_different_times(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker, ThreadPoolExecutor(20) as threads:
        Cluster(broker.bootstrap, timeout_s=15).create_topic("orders", partitions=1)
        gateway = Serving(broker.bootstrap, produce_ms_max=500)
        gateway.start()
        try:
            assert gateway.post("/topics/orders", "1", "application/json").status_code == 200
            broker.kill()
            responses = [
                *threads.map(lambda _: gateway.post("/topics/orders", "1", "application/json"), range(20))
            ]
        finally:
            gateway.stop()
    assert {each.status_code for each in responses} == {503}
    pauses = {int(each.headers["Retry-After"]) for each in responses}
    assert pauses <= {1, 2, 3, 4, 5}
    assert len(pauses) > 1
