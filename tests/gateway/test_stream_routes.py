"""Streams over HTTP: every record once, across any number of lost connections."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import httpx_sse
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.gateway.event_ids import EventId
from tests.gateway.conftest import NewTopic, Serve, Serving, Write

pytestmark = pytest.mark.timeout(180)


def data_of(events: Iterator[httpx_sse.ServerSentEvent], count: int) -> list[Any]:
    return [json.loads(each.data) for each in itertools.islice(events, count)]


def values_of(events: Iterator[httpx_sse.ServerSentEvent], count: int) -> list[Any]:
    return [each["value"] for each in data_of(events, count)]


def test_stream_has_what_comes_after_it_began(gateway: Serving, topic: str, write: Write) -> None:
    write(topic, b"1", partition=0)
    with gateway.events(f"/topics/{topic}/stream") as events:
        write(topic, b"2", b"3", partition=1)
        assert values_of(events, 2) == [2, 3]


def test_stream_from_the_beginning_goes_over_into_what_comes(
    gateway: Serving, topic: str, write: Write
) -> None:
    write(topic, *[str(each).encode() for each in range(30)])
    with gateway.events(f"/topics/{topic}/stream", **{"from": "earliest"}) as events:
        assert sorted(values_of(events, 30)) == [*range(30)]
        write(topic, b"30")
        assert values_of(events, 1) == [30]


def test_stream_from_a_time(gateway: Serving, topic: str, write: Write) -> None:
    for minute in range(3):
        write(topic, str(minute).encode(), partition=0, timestamp=1_700_000_000_000 + minute * 60_000)
    with gateway.events(f"/topics/{topic}/stream", **{"from": "1700000060000"}) as events:
        assert values_of(events, 2) == [1, 2]


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 9), min_size=1, max_size=4), live=st.booleans())
def test_stream_resumes_without_a_gap_and_without_a_duplicate(
    gateway: Serving, new_topic: NewTopic, write: Write, cuts: list[int], live: bool
) -> None:
    topic = new_topic(3)
    total = 40
    values = [str(each).encode() for each in range(total)]
    write(topic, *values[: 20 if live else total])
    found: list[tuple[int, int]] = []
    last_id = ""
    for index, cut in enumerate([*cuts, total]):
        start = {} if last_id else {"from": "earliest"}
        if live and index == len(cuts):
            write(topic, *values[20:])
        count = min(cut, total - len(found), max(0, 20 - len(found)) if live and index < len(cuts) else total)
        with gateway.events(f"/topics/{topic}/stream", last_event_id=last_id, **start) as events:
            for event in itertools.islice(events, count):
                record = json.loads(event.data)
                found.append((record["partition"], record["offset"]))
                last_id = event.id
    assert len(found) == len(set(found)) == total
    for partition in range(3):
        offsets = [offset for number, offset in found if number == partition]
        assert offsets == sorted(offsets)


def test_one_stream_has_several_topics_and_resumes_in_all(
    gateway: Serving, new_topic: NewTopic, write: Write
) -> None:
    one, other = new_topic(2), new_topic(1)
    topics = f"{one},{other}"
    with gateway.events("/stream", topics=topics) as events:
        write(one, b"1", b"2", partitions=2)
        write(other, b"3", partition=0)
        first = next(events)
    rest = {1, 2, 3} - {json.loads(first.data)["value"]}
    write(other, b"4", partition=0)
    with gateway.events("/stream", topics=topics, last_event_id=first.id) as events:
        assert set(values_of(events, 3)) == rest | {4}


def test_stream_of_one_key(gateway: Serving, topic: str, write: Write) -> None:
    with gateway.events(f"/topics/{topic}/stream", key="b") as events:
        for index, key in enumerate((b"a", b"b", b"a", b"b")):
            write(topic, str(index).encode(), partition=0, key=key)
        assert values_of(events, 2) == [1, 3]


def test_id_of_another_cluster_resumes_by_time(gateway: Serving, topic: str, write: Write) -> None:
    now_ms = 1_700_000_000_000
    for index, age_s in enumerate((60, 9, 1)):
        write(topic, str(index).encode(), partition=0, timestamp=now_ms - age_s * 1_000)
    id = EventId({topic: {0: 1_000_000}}, now_ms, "another-cluster").text()
    with gateway.events(f"/topics/{topic}/stream", last_event_id=id) as events:
        assert values_of(events, 2) == [1, 2], "from ten seconds before the time of the event"


def test_id_of_a_topic_that_was_created_again_resumes_by_time(
    gateway: Serving, topic: str, write: Write
) -> None:
    with gateway.events(f"/topics/{topic}/stream") as events:
        write(topic, b"1", partition=0)
        last = EventId.from_text(next(events).id)
    id = EventId({topic: {0: 1_000, 1: 0, 2: 0}}, last.time_ms, last.cluster).text()
    with gateway.events(f"/topics/{topic}/stream", last_event_id=id) as events:
        assert values_of(events, 1) == [1]


def test_silent_stream_keeps_its_connection_and_its_position(serve: Serve, topic: str, write: Write) -> None:
    gateway = serve(heartbeat_ms=50)
    with gateway.client.stream("GET", f"/topics/{topic}/stream?key=a") as response:
        lines = response.iter_lines()
        while next(lines) != ": heartbeat":
            pass
        write(topic, b"1", partition=0, key=b"b")
        id = next(each for each in lines if each.startswith("id: "))
        assert next(lines) == "", "without data it is no event"
    assert EventId.from_text(id.removeprefix("id: ")).offsets[topic][0] == 1


def test_stream_that_fell_behind_the_shared_buffer_reads_the_log(
    serve: Serve, topic: str, write: Write
) -> None:
    gateway = serve(buffer_records_max=2, page_bytes_max=1_000)
    with gateway.events(f"/topics/{topic}/stream") as events:
        write(topic, *[str(each).encode() for each in range(500)])
        assert sorted(values_of(events, 500)) == [*range(500)]


def test_one_stream_more_than_allowed_is_told_to_come_back(serve: Serve, topic: str) -> None:
    gateway = serve(subscribers_max=1)
    with gateway.events(f"/topics/{topic}/stream"):
        response = gateway.get(f"/topics/{topic}/stream")
        assert response.status_code == 503
        assert int(response.headers["Retry-After"]) in range(1, 6)
        assert gateway.post(f"/topics/{topic}", "1", "application/json").status_code == 200


def test_place_of_a_client_that_is_gone_is_free_again(serve: Serve, topic: str) -> None:
    gateway = serve(subscribers_max=1, retry_after_s_max=1)
    for _ in range(3):
        with gateway.client.stream("GET", f"/topics/{topic}/stream") as response:
            if response.status_code == 200:
                next(response.iter_lines())
    for _ in range(200):
        with gateway.client.stream("GET", f"/topics/{topic}/stream") as response:
            if response.status_code == 200:
                return
    raise AssertionError("the place was never free")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/no-such-topic/stream", 404),
        ("/topics/{topic}/stream?from=soon", 400),
        ("/topics/{topic}/stream?form=earliest", 400),
        ("/topics/{topic}/stream?last_event_id=x", 400),
        ("/stream?topics=", 400),
        ("/stream?topics=" + ",".join(f"t{each}" for each in range(17)), 400),
        ("/stream", 400),
    ],
)
def test_wrong_request_is_an_answer_of_its_own(gateway: Serving, topic: str, path: str, status: int) -> None:
    response = gateway.get(path.format(topic=topic))
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")


def test_deleted_topic_ends_its_streams_with_the_reason(serve: Serve, topic: str) -> None:
    gateway = serve(metadata_ms=100)
    with gateway.events(f"/topics/{topic}/stream") as events:
        gateway.cluster.delete_topics([topic])
        last = next(events)
        assert last.event == "error"
        assert "hint" in json.loads(last.data)
        with pytest.raises((StopIteration, httpx.ReadError)):
            next(events)


def test_partition_that_is_added_is_followed(serve: Serve, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    gateway = serve(metadata_ms=100)
    with gateway.events(f"/topics/{topic}/stream") as events:
        gateway.cluster.add_partitions(topic, 2)
        while gateway.post(f"/topics/{topic}/partitions/1", "7", "application/json").status_code == 404:
            pass
        assert values_of(events, 1) == [7]
