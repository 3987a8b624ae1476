from __future__ import annotations

import pytest

from headrace.gateway.answers import REST_JSON
from tests.gateway.conftest import NewTopic, Serving, Write

pytestmark = pytest.mark.timeout(120)


def test_topic_has_the_form_of_the_rest_proxy(gateway: Serving, new_topic: NewTopic) -> None:
    topic = new_topic(2, **{"retention.ms": "1234567"})
    found = gateway.get(f"/topics/{topic}").json()
    assert (found["name"], found["configs"]["retention.ms"]) == (topic, "1234567")
    leader = found["partitions"][0]["leader"]
    replicas = [{"broker": leader, "leader": True, "in_sync": True}]
    expected = [{"partition": each, "leader": leader, "replicas": replicas} for each in range(2)]
    assert found["partitions"] == expected
    assert gateway.get(f"/topics/{topic}/partitions").json() == expected
    assert gateway.get(f"/topics/{topic}/partitions/1").json() == expected[1]


def test_topics_are_listed_by_name(gateway: Serving, topic: str) -> None:
    assert gateway.get(f"/topics/{topic}").status_code == 200
    names = gateway.get("/topics").json()
    assert topic in names
    assert names == sorted(names)


def test_a_new_topic_is_listed_at_once(gateway: Serving, new_topic: NewTopic) -> None:
    gateway.get("/topics")
    name = new_topic()
    assert name in gateway.get("/topics").json()


def test_brokers_are_listed(gateway: Serving) -> None:
    (broker,) = gateway.get("/brokers").json()["brokers"]
    assert isinstance(broker, int)


def test_offsets_of_a_partition(gateway: Serving, topic: str, write: Write) -> None:
    write(topic, b"1", b"2", partition=1)
    assert gateway.get(f"/topics/{topic}/partitions/1/offsets").json() == {
        "beginning_offset": 0,
        "end_offset": 2,
    }


def test_client_that_accepts_the_type_of_the_rest_proxy_gets_it(gateway: Serving, topic: str) -> None:
    assert gateway.get("/topics").headers["content-type"] == "application/json"
    response = gateway.client.get("/topics", headers={"Accept": REST_JSON})
    assert response.headers["content-type"] == REST_JSON


def test_unknown_topic_is_404_with_a_similar_name(gateway: Serving, topic: str) -> None:
    for path in (f"/topics/{topic}s", f"/topics/{topic}s/partitions"):
        response = gateway.get(path)
        assert (response.status_code, response.json()["error_code"]) == (404, 40401)
        assert topic in response.json()["hint"]
    assert gateway.get(f"/topics/{topic}/partitions/9").json()["error_code"] == 40402
