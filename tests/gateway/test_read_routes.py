"""Reading over HTTP: the position is in the request and in the response."""

from __future__ import annotations

import threading

import pytest

from headrace.kafka.position import Position
from tests.gateway.conftest import NewTopic, Serving, Write

pytestmark = pytest.mark.timeout(120)


def test_pages_have_every_record_once_and_fair_shares_of_partitions(
    gateway: Serving, topic: str, write: Write
) -> None:
    write(topic, *[str(each).encode() for each in range(100)], partition=0)
    write(topic, b"100", partition=1)
    first = gateway.get(f"/topics/{topic}/records", limit=10).json()
    assert {each["partition"] for each in first["records"]} == {0, 1}, (
        "partition 1 need not wait for partition 0"
    )
    assert len(first["records"]) <= 10
    assert not first["at_end"]
    found = gateway.records(topic, limit=10)
    assert sorted(each["value"] for each in found) == [*range(101)]


def test_partition_and_offset_choose_the_records(gateway: Serving, topic: str, write: Write) -> None:
    write(topic, b"0", b"1", b"2", partition=2)
    page = gateway.get(f"/topics/{topic}/records", partition=2, offset=1).json()
    assert [(each["partition"], each["offset"]) for each in page["records"]] == [(2, 1), (2, 2)]
    assert Position.from_token(page["position"]) == Position({topic: {2: 3}})


def test_position_of_a_write_is_one_to_read_on_from(gateway: Serving, topic: str) -> None:
    gateway.post(f"/topics/{topic}/partitions/0", "1", "application/json")
    written = gateway.post(f"/topics/{topic}/partitions/0", "2", "application/json").json()
    gateway.post(f"/topics/{topic}/partitions/0", "3", "application/json")
    page = gateway.get(f"/topics/{topic}/records", position=written["position"]).json()
    assert [each["value"] for each in page["records"]] == [3]


def test_time_chooses_the_first_record_at_or_after_it(gateway: Serving, topic: str, write: Write) -> None:
    for minute in range(4):
        write(topic, str(minute).encode(), partition=0, timestamp=1_700_000_000_000 + minute * 60_000)
    page = gateway.get(f"/topics/{topic}/records", **{"from": "2023-11-14T22:14:30Z"}).json()
    assert [each["value"] for each in page["records"]] == [2, 3]
    assert gateway.get(f"/topics/{topic}/records", **{"from": "latest"}).json()["records"] == []


def test_formats_of_values(gateway: Serving, topic: str, write: Write) -> None:
    write(topic, b"text", partition=0, key=b"k", headers=[("h", b"v")])
    values = {each: gateway.records(topic, format=each)[0]["value"] for each in ("json", "text", "base64")}
    assert values == {"json": None, "text": "text", "base64": "dGV4dA=="}


def test_bytes_of_a_page_are_bounded_but_it_has_a_record(
    gateway: Serving, new_topic: NewTopic, write: Write
) -> None:
    topic = new_topic(1)
    write(topic, *[b'"' + b"x" * 1_000 + b'"'] * 10, partition=0)
    assert len(gateway.get(f"/topics/{topic}/records", max_bytes=1).json()["records"]) == 1
    assert len(gateway.get(f"/topics/{topic}/records", max_bytes=5_000).json()["records"]) == 4


def test_read_waits_for_a_record(gateway: Serving, topic: str, write: Write) -> None:
    position = gateway.get(f"/topics/{topic}/records").json()["position"]
    thread = threading.Timer(0.3, lambda: write(topic, b"1", partition=1))
    thread.start()
    page = gateway.get(f"/topics/{topic}/records", position=position, wait="30s").json()
    thread.join()
    assert [each["value"] for each in page["records"]] == [1]
    again = gateway.get(f"/topics/{topic}/records", position=page["position"], wait="10ms").json()
    assert (again["records"], again["position"]) == ([], page["position"])


def test_transaction_is_read_when_it_is_committed(gateway: Serving, bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for value in (b"1", b"2"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        assert value.decode() not in [str(each["value"]) for each in gateway.records(topic)]
        (producer.abort_transaction if value == b"1" else producer.commit_transaction)(30)
    page = gateway.get(f"/topics/{topic}/records").json()
    assert ([each["value"] for each in page["records"]], page["at_end"]) == ([2], True)
    assert gateway.get(f"/topics/{topic}/records", position=page["position"]).json()["at_end"]


def test_records_that_retention_deleted_are_reported(
    gateway: Serving, new_topic: NewTopic, write: Write
) -> None:
    topic = new_topic(1)
    write(topic, b"0", b"1", b"2", partition=0)
    gateway.cluster.delete_records({gateway.cluster.partitions(topic)[0]: 2})
    page = gateway.get(f"/topics/{topic}/records", partition=0, offset=0).json()
    assert (page["records"], page["gaps"]) == ([], [{"topic": topic, "partition": 0, "first": 0, "next": 2}])
    page = gateway.get(f"/topics/{topic}/records", position=page["position"]).json()
    assert [each["value"] for each in page["records"]] == [2]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"offset": 1}, "offset needs a partition"),
        ({"partition": 0, "offset": 9}, "has not reached offset 9"),
        ({"partition": 0, "offset": 0, "from": "1h"}, "more than one start"),
        ({"from": "yesterday"}, "not a time"),
        ({"from": "-1"}, "out of range"),
        ({"from": "9" * 30}, "out of range"),
        ({"position": "x"}, "not a position"),
        ({"limit": 0}, "limit"),
        ({"wait": "1h"}, "too long"),
        ({"wait": "soon"}, "not a duration"),
        ({"wait": "1s", "partition": 0}, "all partitions"),
        ({"format": "xml"}, "format"),
        ({"offsets": 1}, "did you mean offset"),
    ],
)
def test_wrong_parameter_is_rejected(
    gateway: Serving, topic: str, parameters: dict[str, str], problem: str
) -> None:
    response = gateway.get(f"/topics/{topic}/records", **parameters)
    assert response.status_code == 400
    answer = response.json()
    assert problem in answer["message"] + answer["hint"]


def test_unknown_topic_and_partition_are_404(gateway: Serving, topic: str) -> None:
    assert gateway.get("/topics/no-such-topic/records").json()["error_code"] == 40401
    assert gateway.get(f"/topics/{topic}/records", partition=3).json()["error_code"] == 40402
    token = Position({topic: {7: 0}}).token()
    assert gateway.get(f"/topics/{topic}/records", position=token).json()["error_code"] == 40402
    assert "no-such-topic" not in gateway.get("/topics").json(), "reading creates nothing"
