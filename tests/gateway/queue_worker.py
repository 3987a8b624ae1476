"""A client of one queue over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx

WAIT_S = 60.0


class Worker:
    def __init__(self, url: str, topic: str, group: str) -> None:
        self.topic, self.group = topic, group
        self.client = httpx.Client(base_url=url, timeout=WAIT_S)

    def ask(self, count: int = 1, wait: str = "20s", **parameters: Any) -> httpx.Response:
        return self.client.post(
            f"/queues/{self.topic}/receive",
            params={"group": self.group, "max": count, "wait": wait, **parameters},
        )

    def receive(self, count: int = 1, wait: str = "20s", **parameters: Any) -> list[dict[str, Any]]:
        response = self.ask(count, wait, **parameters)
        assert response.status_code == 200, response.text
        messages: list[dict[str, Any]] = response.json()["messages"]
        return messages

    def receive_all(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += self.receive(count - len(found))
        return found

    def acknowledge(self, how: str, *messages: dict[str, Any] | str, **body: Any) -> httpx.Response:
        """By message or by receipt."""
        receipts = [each if isinstance(each, str) else each["receipt"] for each in messages]
        return self.client.post(
            f"/queues/{self.topic}/{how}",
            content=json.dumps({"receipts": receipts, **body}),
            headers={"Content-Type": "application/json"},
        )

    def accept(self, *messages: dict[str, Any] | str) -> httpx.Response:
        return self.acknowledge("accept", *messages)

    def release(self, *messages: dict[str, Any] | str) -> httpx.Response:
        return self.acknowledge("release", *messages)
