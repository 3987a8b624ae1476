"""Queues over HTTP: a message belongs to the client that received it, until it is acknowledged or its lock ends."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import NewTopic, Serve, Serving, Write

pytestmark = pytest.mark.timeout(120)


class Worker:
    """A client of one queue."""

    def __init__(self, gateway: Serving, topic: str, group: str) -> None:
        self.gateway, self.topic, self.group = gateway, topic, group

    def receive(self, max: int = 1, wait: str = "20s", **parameters: Any) -> list[dict[str, Any]]:
        response = self.gateway.client.post(
            f"/queues/{self.topic}/receive",
            params={"group": self.group, "max": max, "wait": wait, **parameters},
        )
        assert response.status_code == 200, response.text
        messages: list[dict[str, Any]] = response.json()["messages"]
        return messages

    def receive_all(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += self.receive(count - len(found))
        return found

    def send(self, how: str, *messages: dict[str, Any] | str, **body: Any) -> httpx.Response:
        receipts = [each if isinstance(each, str) else each["receipt"] for each in messages]
        return self.gateway.post(
            f"/queues/{self.topic}/{how}", json.dumps({"receipts": receipts, **body}), "application/json"
        )

    def accept(self, *messages: dict[str, Any] | str) -> httpx.Response:
        return self.send("accept", *messages)


@pytest.fixture
def group() -> str:
    return f"workers-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def worker(gateway: Serving, new_topic: NewTopic, group: str) -> Worker:
    return Worker(gateway, new_topic(1), group)


def set_group(gateway: Serving, group: str, **settings: object) -> None:
    wanted = {name.replace("_", "."): str(value) for name, value in settings.items()}
    gateway.cluster.alter_configs("group", group, wanted)


def test_message_that_is_accepted_is_not_delivered_again(worker: Worker, write: Write) -> None:
    write(worker.topic, b'{"to": "ann"}', b"2", partition=0, key=b"k", headers={"h": "1"})
    first, second = worker.receive_all(2)
    assert (first["value"], first["key"], first["headers"]) == ({"to": "ann"}, "k", [{"name": "h", "value": "1"}])
    assert (first["delivery_count"], first["offset"], second["offset"]) == (1, 0, 1)
    assert 0 < first["lock_ms"] < 30_000
    answered = worker.accept(first, second)
    assert (answered.status_code, answered.json()) == (
        200,
        {"results": [{"receipt": first["receipt"]}, {"receipt": second["receipt"]}]},
    )
    assert worker.receive(10, wait="0s") == []


def test_message_that_is_released_is_delivered_again(worker: Worker, write: Write) -> None:
    write(worker.topic, b"1", partition=0)
    (first,) = worker.receive()
    assert worker.send("release", first).status_code == 200
    (again,) = worker.receive()
    assert (again["offset"], again["delivery_count"]) == (0, 2)
    assert worker.accept(again).status_code == 200
