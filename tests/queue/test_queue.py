"""Opening and closing a queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.queue import Queue, QueueUnusable
from headrace.testing.ports import free_ports
from tests.queue.conftest import OpenQueue, Send, take, values


def test_messages_sent_before_the_first_worker_joined_are_delivered(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 2)) == ["one", "two"]


def test_queue_needs_either_topics_or_a_pattern(open_queue: OpenQueue) -> None:
    with pytest.raises(QueueUnusable, match="topics or a pattern"):
        open_queue(group="g")
    with pytest.raises(QueueUnusable, match="topics or a pattern"):
        open_queue("emails", group="g", pattern="emails")


def test_unknown_start_is_rejected_when_the_queue_is_created(open_queue: OpenQueue) -> None:
    with pytest.raises(QueueUnusable, match=r"start='now' is unknown.*earliest, latest"):
        open_queue("emails", group="g", start="now")


def test_queue_without_a_broker_fails_immediately_with_the_address() -> None:
    """With a time limit that the test would not survive."""
    (port,) = free_ports(1)
    with pytest.raises(QueueUnusable, match=rf"no broker answers at 127\.0\.0\.1:{port}.*headrace broker"):
        Queue("emails", group="g", bootstrap=f"127.0.0.1:{port}", timeout_s=3600).open()


def test_default_address_is_that_of_the_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bootstrap: str, topic: str, group: str, send: Send
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    assert Queue(topic, group=group).bootstrap == "127.0.0.1:9092"
    (tmp_path / "headrace.toml").write_text('[client]\nbootstrap = "127.0.0.1:1"\n')
    assert Queue(topic, group=group).bootstrap == "127.0.0.1:1"
    assert Queue(topic, group=group, config={"bootstrap.servers": "127.0.0.1:2"}).bootstrap == "127.0.0.1:2"
    (tmp_path / "headrace.toml").write_text("this is no TOML")
    assert Queue(topic, group=group, bootstrap="127.0.0.1:3").bootstrap == "127.0.0.1:3"
    (tmp_path / "headrace.toml").unlink()
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", bootstrap)
    send(topic, "found")
    with Queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["found"]


def test_missing_topic_is_an_error_that_names_the_nearest_one(
    open_queue: OpenQueue, topic: str, group: str
) -> None:
    with pytest.raises(QueueUnusable, match=rf"there is no topic {topic}x \(did you mean {topic}\?"):
        open_queue(f"{topic}x", group=group).open()
    with pytest.raises(QueueUnusable, match="headrace topic create elsewhere"):
        open_queue(topic, "elsewhere", group=group).open()


def test_closed_queue_stays_closed(open_queue: OpenQueue, topic: str, group: str) -> None:
    with open_queue(topic, group=group) as queue:
        pass
    assert queue.get(timeout=0.1) is None
    with pytest.raises(QueueUnusable, match="was closed"):
        queue.open()
