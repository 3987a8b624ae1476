"""Queues over HTTP: a message belongs to the client that received it, until it is acknowledged or its lock ends."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headrace.kafka.share_groups import GroupState, describe_share_group
from headrace.queue.group_settings import ORDER
from tests.gateway.conftest import NewTopic, Serve, Serving, Write
from tests.gateway.queue_worker import WAIT_S, Worker

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def group() -> str:
    return f"workers-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    return new_topic(1)


@pytest.fixture
def worker(gateway: Serving, topic: str, group: str) -> Worker:
    return Worker(gateway.url, topic, group)


def set_group(gateway: Serving, group: str, **settings: object) -> None:
    wanted = {name.replace("_", "."): str(value) for name, value in settings.items()}
    gateway.cluster.alter_configs("group", group, wanted)


def state_of(gateway: Serving, group: str) -> GroupState:
    host, port = gateway.cluster.bootstrap.split(":")
    return describe_share_group((host, int(port)), group, WAIT_S)


def is_in_flight(gateway: Serving, group: str, count: int) -> bool:
    """Apache Kafka reports no such numbers."""
    return state_of(gateway, group).in_flight in (count, None)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.01)


def codes(response: httpx.Response) -> list[int | None]:
    return [each.get("error_code") for each in response.json()["results"]]


def test_message_that_is_accepted_is_not_delivered_again(worker: Worker, write: Write) -> None:
    write(worker.topic, b'{"to": "ann"}', b"2", partition=0, key=b"k", headers={"h": "1"})
    first, second = worker.receive_all(2)
    assert (first["value"], first["key"]) == ({"to": "ann"}, "k")
    assert first["headers"] == [{"name": "h", "value": "1"}]
    assert (first["delivery_count"], first["offset"], second["offset"]) == (1, 0, 1)
    assert 0 < first["lock_ms"] < 30_000
    answered = worker.accept(first, second)
    expected = {"results": [{"receipt": first["receipt"]}, {"receipt": second["receipt"]}]}
    assert (answered.status_code, answered.json()) == (200, expected)
    assert worker.receive(10, wait="0s") == []


def test_message_that_is_released_is_delivered_again(worker: Worker, write: Write) -> None:
    write(worker.topic, b"1", partition=0)
    (first,) = worker.receive()
    assert worker.release(first).status_code == 200
    (again,) = worker.receive()
    assert (again["offset"], again["delivery_count"]) == (0, 2)
    assert worker.accept(again).status_code == 200


def test_message_that_is_rejected_is_a_dead_letter_with_the_reason(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    write(worker.topic, b"1", partition=0)
    rejected = worker.acknowledge("reject", *worker.receive(), reason="no such mailbox")
    assert rejected.status_code == 200, rejected.text
    letters = f"dlq.{worker.group}"
    wait_until(lambda: letters in gateway.cluster.topics() and bool(gateway.records(letters)))
    (letter,) = gateway.records(letters)
    headers = {each["name"]: each["value"] for each in letter["headers"]}
    assert (letter["value"], headers["__dlq.errors.message"]) == (1, "no such mailbox")
    assert worker.receive(10, wait="0s") == []


def test_message_at_its_last_delivery_that_is_released_is_a_dead_letter(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    set_group(gateway, worker.group, share_delivery_count_limit=2)
    write(worker.topic, b"1", partition=0)
    worker.release(*worker.receive())
    assert (
        worker.acknowledge("release", *worker.receive(), reason="the mail server is down").status_code == 200
    )
    letters = f"dlq.{worker.group}"
    wait_until(lambda: letters in gateway.cluster.topics() and bool(gateway.records(letters)))
    (letter,) = gateway.records(letters)
    assert {"name": "__dlq.errors.message", "value": "the mail server is down"} in letter["headers"]


def test_no_more_messages_than_wanted_are_locked(gateway: Serving, worker: Worker, write: Write) -> None:
    write(worker.topic, *[b"1"] * 20, partition=0)
    held = worker.receive(3)
    assert len(held) == 3
    assert is_in_flight(gateway, worker.group, 3)
    assert len(worker.receive(7)) == 7, "while others are held"
    assert is_in_flight(gateway, worker.group, 10)
    assert worker.accept(*held).status_code == 200
    assert is_in_flight(gateway, worker.group, 7)


def test_receive_waits_for_a_message(gateway: Serving, worker: Worker, write: Write) -> None:
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.extend(worker.receive(wait="60s")))
    waiting.start()
    wait_until(lambda: has_members(gateway, worker.group))
    write(worker.topic, b"1", partition=0)
    waiting.join()
    assert [each["value"] for each in found] == [1]


def has_members(gateway: Serving, group: str) -> bool:
    try:
        return bool(state_of(gateway, group).members)
    except Exception:
        return False


def test_receive_that_finds_nothing_locks_nothing_later(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    assert worker.receive(wait="0s") == []
    write(worker.topic, b"1", partition=0)
    assert is_in_flight(gateway, worker.group, 0)
    (message,) = worker.receive()
    assert message["delivery_count"] == 1


def test_lock_of_a_client_that_is_gone_ends_and_the_message_is_delivered_again(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    set_group(gateway, worker.group, share_record_lock_duration_ms=1_000)
    write(worker.topic, b"1", partition=0)
    (first,) = worker.receive()
    worker.client.close()
    other = Worker(gateway.url, worker.topic, worker.group)
    (again,) = other.receive()
    assert (again["offset"], again["delivery_count"]) == (0, 2)
    late = other.accept(first)
    assert (late.status_code, codes(late)) == (409, [410])
    assert other.accept(again).status_code == 200


def test_message_for_a_client_that_disconnected_while_it_waited_is_delivered_to_another(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    set_group(gateway, worker.group, share_record_lock_duration_ms=60_000)
    with gateway.socket() as client:
        client.sendall(
            f"POST /queues/{worker.topic}/receive?group={worker.group}&wait=60s HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode()
        )
        wait_until(lambda: has_members(gateway, worker.group))
    write(worker.topic, b"1", partition=0)
    (message,) = worker.receive(wait="30s")  # less than the lock
    assert worker.accept(message).status_code == 200


def test_receipt_that_is_wrong_foreign_or_of_another_queue_fails_alone(
    serve: Serve, gateway: Serving, worker: Worker, new_topic: NewTopic, write: Write
) -> None:
    other_topic = Worker(gateway.url, new_topic(1), worker.group)
    other_gateway = Worker(serve().url, other_topic.topic, worker.group)
    write(worker.topic, b"1", partition=0)
    write(other_topic.topic, b"1", b"2", partition=0)
    (valid,), (of_other_topic,), (foreign,) = worker.receive(), other_topic.receive(), other_gateway.receive()
    receipt = valid["receipt"]
    changed = receipt[:-1] + ("A" if receipt[-1] != "A" else "Q")
    answered = worker.accept("", "nonsense", changed, of_other_topic, foreign, valid)
    assert answered.status_code == 409
    assert codes(answered) == [40003, 40003, 40003, 40003, 40901, None]
    assert all(each["hint"] for each in answered.json()["results"][:5])
    assert worker.receive(wait="0s") == [], "the valid one is accepted"


def test_request_that_is_repeated_gets_the_same_answer(worker: Worker, write: Write) -> None:
    write(worker.topic, b"1", partition=0)
    (message,) = worker.receive()
    assert [worker.accept(message, message).status_code, worker.accept(message).status_code] == [200, 200]
    rejected = worker.acknowledge("reject", message)
    assert (rejected.status_code, codes(rejected)) == (409, [40902])
    assert "accept" in rejected.json()["message"]


def test_messages_of_a_key_are_held_by_one_client_at_a_time_in_an_ordered_group(
    gateway: Serving, worker: Worker, write: Write
) -> None:
    if ORDER not in gateway.cluster.configs("group", worker.group):
        pytest.skip("only Headrace's broker orders messages by key")
    set_group(gateway, worker.group, headrace_share_order="key")
    for key in (b"a", b"b"):
        write(worker.topic, b"1", b"2", b"3", partition=0, key=key)
    held = worker.receive_all(2)
    assert sorted((each["key"], each["value"]) for each in held) == [("a", 1), ("b", 1)]
    assert worker.receive(10, wait="0s") == []
    a, b = sorted(held, key=lambda each: each["key"])
    assert worker.accept(a).status_code == 200
    (second,) = worker.receive(10)
    assert (second["key"], second["value"]) == ("a", 2)
    assert worker.release(b).status_code == 200
    (again,) = worker.receive(10)
    assert (again["key"], again["value"], again["delivery_count"]) == ("b", 1, 2), "none overtakes it"
    done = [second, again]
    order = [(each["key"], each["value"]) for each in done]
    worker.accept(*done)
    while len(order) < 5:
        taken = worker.receive(10)
        order += [(each["key"], each["value"]) for each in taken]
        worker.accept(*taken)
    assert [value for key, value in order if key == "b"] == [1, 2, 3]
    assert [value for key, value in order if key == "a"] == [2, 3]


def test_several_gateways_share_the_messages_of_a_group(
    serve: Serve, gateway: Serving, worker: Worker, write: Write
) -> None:
    other = Worker(serve().url, worker.topic, worker.group)
    write(worker.topic, *[str(each).encode() for each in range(40)], partition=0)
    seen: list[int] = []
    while len(seen) < 40:
        for each in (worker, other):
            taken = each.receive(5, wait="0s")
            assert not taken or each.accept(*taken).status_code == 200
            seen += [message["value"] for message in taken]
    assert sorted(seen) == [*range(40)]


def test_gateway_that_stops_releases_what_its_clients_hold(
    serve: Serve, worker: Worker, write: Write
) -> None:
    stopping = serve()
    write(worker.topic, b"1", b"2", partition=0)
    set_group(stopping, worker.group, share_record_lock_duration_ms=60_000)
    assert len(Worker(stopping.url, worker.topic, worker.group).receive_all(2)) == 2
    stopping.stop()
    assert [each["offset"] for each in worker.receive(2)] == [0, 1], "long before the locks end"


def test_more_clients_than_consumers_get_503_and_a_time_to_come_back(
    serve: Serve, topic: str, group: str, write: Write
) -> None:
    gateway = serve(queue_consumers_max=2)
    worker = Worker(gateway.url, topic, group)
    for value in (b"1", b"2", b"3"):
        write(topic, value, partition=0)  # Apache Kafka delivers whole batches
    held = [*worker.receive(), *worker.receive()]
    rejected = worker.ask()
    assert (rejected.status_code, int(rejected.headers["Retry-After"]) in range(1, 6)) == (503, True)
    assert worker.accept(held[0]).status_code == 200
    assert [each["offset"] for each in worker.receive()] == [2], "an unused consumer makes place"


def test_unused_consumer_of_another_size_makes_place(
    serve: Serve, topic: str, group: str, write: Write
) -> None:
    worker = Worker(serve(queue_consumers_max=1).url, topic, group)
    write(topic, b"1", b"2", partition=0)
    worker.accept(*worker.receive(1))
    assert [each["offset"] for each in worker.receive(2)] == [1]


def test_unused_consumers_leave_their_group(serve: Serve, topic: str, group: str, write: Write) -> None:
    gateway = serve(queue_idle_ms=50)
    worker = Worker(gateway.url, topic, group)
    write(topic, b"1", partition=0)
    worker.accept(*worker.receive())
    wait_until(lambda: not has_members(gateway, group))


def test_clients_that_disconnect_while_they_wait_leave_no_consumer_behind(
    serve: Serve, topic: str, group: str, write: Write
) -> None:
    gateway = serve(queue_consumers_max=4)
    worker = Worker(gateway.url, topic, group)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(gateway.socket()).sendall(
                f"POST /queues/{topic}/receive?group={group}&wait=60s HTTP/1.1\r\n"
                "Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode()
            )
        wait_until(lambda: worker.ask(wait="0s").status_code == 503)
    wait_until(lambda: worker.ask(wait="0s").status_code == 200)
    write(topic, b"1", partition=0)
    assert [each["value"] for each in worker.receive()] == [1]


def test_page_of_another_site_locks_no_message(gateway: Serving, worker: Worker, write: Write) -> None:
    write(worker.topic, b"1", partition=0)
    worker.client.headers["Origin"] = "https://evil.example"
    assert worker.ask().status_code == 403
    del worker.client.headers["Origin"]
    (message,) = worker.receive()
    assert message["delivery_count"] == 1


def test_receive_returns_no_more_than_the_bound(serve: Serve, topic: str, group: str, write: Write) -> None:
    worker = Worker(serve(queue_messages_max=3).url, topic, group)
    write(topic, *[b"1"] * 10, partition=0)
    assert len(worker.receive(100)) == 3


def test_too_many_queues_get_503(serve: Serve, topic: str) -> None:
    gateway = serve(queues_max=1)
    assert Worker(gateway.url, topic, "a").ask(wait="0s").status_code == 200
    assert Worker(gateway.url, topic, "b").ask(wait="0s").status_code == 503


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/queues/no-such-topic/receive?group=g", 404),
        ("/queues/{topic}/receive", 400),
        ("/queues/{topic}/receive?group=", 400),
        ("/queues/{topic}/receive?group=g&max=0", 400),
        ("/queues/{topic}/receive?group=g&wait=soon", 400),
        ("/queues/{topic}/receive?group=g&wait=1d", 400),
        ("/queues/{topic}/receive?group=g&limit=1", 400),
        ("/queues/{topic}/accept", 415),  # a page of another site would have to ask first
        ("/queues/{topic}/renew", 404),
    ],
)
def test_wrong_request_is_an_error(gateway: Serving, topic: str, path: str, status: int) -> None:
    response = gateway.client.post(path.format(topic=topic))
    assert response.status_code == status, response.text
    assert response.json()["hint"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"receipts": []}',
        '{"receipts": [1]}',
        '{"receipts": ["a"], "reson": ""}',
        "[" * 100_000,
        '{"receipts": ' + "[" * 100_000,
    ],
)
def test_wrong_body_is_an_error(gateway: Serving, topic: str, body: str) -> None:
    response = gateway.post(f"/queues/{topic}/accept", body, "application/json")
    assert response.status_code == 422, response.text
    assert response.json()["hint"]


def test_value_that_is_no_json_is_delivered_too(worker: Worker, write: Write) -> None:
    write(worker.topic, b"\xff", partition=0)
    (message,) = worker.receive()
    assert (message["value"], message["value_base64"]) == (None, "/w==")
    worker.release(message)
    (message,) = worker.receive(format="base64")
    assert message["value"] == "/w=="
