"""`headrace webhook out dead`: letters are listed and redriven as those of groups and jobs."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.kafka.cluster import Cluster
from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.letters import Letters
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.target import Target
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems
from tests.webhooks.outgoing.conftest import target_of


@pytest.fixture
def target(bootstrap: str, topic: str, name: str) -> Target:
    """With one dead letter."""
    target = target_of(topic, "https://shop.example/", name=name, allow_inside=False)
    message = Outgoing(
        message_id="msg_1",
        origin=MessageId(topic, 0, 0),
        timestamp_ms=0,
        key=None,
        value=b"order 1",
        headers=(),
        attempts=6,
    )

    async def write() -> None:
        letters = Letters(target, Cluster(bootstrap, timeout_s=15))
        await letters.write(message, "HTTP 422, after 6 attempts")
        await asyncio.to_thread(letters.close)

    asyncio.run(write())
    return target


def test_letters_are_listed_shown_and_redriven(headrace: Headrace, target: Target) -> None:
    listed = headrace("webhook", "out", "dead", "list", target.name, "--format", "json").out
    assert json_problems("webhook out dead list", listed) == []
    (letter,) = json.loads(listed)
    assert (letter["value"], letter["reason"]) == ("order 1", "HTTP 422, after 6 attempts")
    assert "order 1" in headrace("webhook", "out", "dead", "show", target.name, "0:0").out
    redriven = headrace("webhook", "out", "dead", "redrive", target.name, "--format", "json").out
    assert json.loads(redriven)["redriven"] == 1
    assert "order 1" in headrace("consume", target.topic, "--from-beginning").out
    assert "no dead letters" in headrace("webhook", "out", "dead", "list", target.name).out


def test_letters_are_discarded_and_purged(headrace: Headrace, target: Target) -> None:
    assert "add --yes" in headrace("webhook", "out", "dead", "discard", target.name, code=1).err
    assert "discarded 1" in headrace("webhook", "out", "dead", "discard", target.name, "--yes").out
    assert "1 records deleted" in headrace("webhook", "out", "dead", "purge", target.name, "--yes").out


def test_webhook_without_letters_has_none(headrace: Headrace, name: str) -> None:
    assert "no dead letters" in headrace("webhook", "out", "dead", "list", name).out
    assert "can't be the name" in headrace("webhook", "out", "dead", "list", "../x", code=1).err
