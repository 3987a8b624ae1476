"""Groups and commands for the tests of queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.queue import Queue
from tests.cli.conftest import Headrace

TIMEOUT_S = 60.0


@pytest.fixture
def half_done(bootstrap: str, producer: Producer, topic: str) -> str:
    """A group of the topic's name that has accepted one of three messages and rejected another."""
    for value in ("good", "bad", "later"):
        producer.produce(topic, value, "k", partition=0, headers={"colour": "red"})
    assert producer.flush(60) == 0
    with Queue(topic, group=topic, bootstrap=bootstrap) as queue:
        for _ in range(3):
            message = queue.get(timeout=TIMEOUT_S)
            assert message is not None
            if message.value == b"good":
                message.accept()
            if message.value == b"bad":
                message.reject("no such mailbox")
    return topic


def wait_for_letter(headrace: Headrace, group: str) -> None:
    while json.loads(headrace("queue", "describe", group, "--format", "json").out)["dead"] < 1:
        pass


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Runs the value of the message as a shell script: `exit 75`, `echo it; sleep 1`."""
    path = tmp_path / "do.sh"
    path.write_text('#!/bin/sh\neval "$(cat)"\n')
    path.chmod(0o755)
    return str(path)
