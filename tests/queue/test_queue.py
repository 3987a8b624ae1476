"""A queue's promises to its worker: each message to one of them, gone when accepted, back when not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.queue import AcknowledgementLost, Message, MessageSettled, Queue, QueueUnusable
from headrace.testing.ports import free_ports
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


def test_messages_sent_before_the_first_worker_came_are_delivered(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 2)) == ["one", "two"]


def test_message_says_everything_about_its_record(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    before = datetime.now(UTC)
    send(topic, "hello", key="k", colour="red")
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert (message.value, message.key, message.headers) == (b"hello", b"k", [("colour", b"red")])
        assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
        assert message.delivery_count == 1
        assert abs((message.timestamp - before).total_seconds()) < TIMEOUT_S


def test_accepted_messages_are_gone_for_the_group(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    with open_queue(topic, group=group) as queue:
        for message in take(queue, 2):
            message.accept()
        queue.flush()
    send(topic, "three")
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["three"]


def test_released_message_comes_again_and_says_so(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "again")
    with open_queue(topic, group=group) as queue:
        take(queue, 1)[0].release()
        (message,) = take(queue, 1)
        assert (message.value, message.delivery_count) == (b"again", 2)
        message.accept()


def test_iteration_ends_when_another_thread_stops_the_queue(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")
    seen: list[str] = []

    def work() -> None:
        for message in queue:
            seen.append(message.value.decode())
            message.accept()
            first_seen.set()

    first_seen = threading.Event()
    with open_queue(topic, group=group) as queue:
        worker = threading.Thread(target=work)
        worker.start()
        assert first_seen.wait(TIMEOUT_S)
        queue.stop()
        worker.join(TIMEOUT_S)
        assert not worker.is_alive()
    assert seen == ["one"]


def test_get_gives_up_after_its_timeout(open_queue: OpenQueue, topic: str, group: str) -> None:
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.1) is None


def test_what_was_not_settled_goes_to_others_when_the_queue_is_left(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one", "two")
    with open_queue(topic, group=group) as queue:
        taken, unseen = take(queue, 2)
        taken.accept()
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        assert (message.value, message.delivery_count) == (b"two", 2)
        message.accept()
    with pytest.raises(MessageSettled, match="when its queue was closed"):
        unseen.accept()


def test_error_in_the_worker_gives_its_message_back(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "one")

    def work() -> None:
        with open_queue(topic, group=group) as queue:
            for message in queue:
                raise ZeroDivisionError(message)

    with pytest.raises(ZeroDivisionError):
        work()
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["one"]


def test_message_is_settled_once_only(open_queue: OpenQueue, topic: str, group: str, send: Send) -> None:
    send(topic, "one")
    with open_queue(topic, group=group) as queue:
        (message,) = take(queue, 1)
        message.accept()
        with pytest.raises(MessageSettled):
            message.reject("too late")


def test_message_whose_lock_ended_goes_to_another_worker_and_late_acceptance_is_told(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, share_record_lock_duration_ms=1000)
    send(topic, "slow")
    with open_queue(topic, group=group) as slow, open_queue(topic, group=group) as quick:
        (held,) = take(slow, 1)
        (again,) = take(quick, 1)
        assert (again.value, again.delivery_count) == (b"slow", 2)
        held.accept()
        with pytest.raises(AcknowledgementLost):
            slow.flush()
        assert slow.lost == 1
        again.accept()
        quick.flush()


def test_late_acknowledgement_does_not_take_others_with_it(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, share_record_lock_duration_ms=2000)
    send(topic, "good", "late")
    with open_queue(topic, group=group) as queue, open_queue(topic, group=group) as other:
        good, late = take(queue, 2)
        good.accept()
        (again,) = take(other, 1)
        assert again.value == b"late"
        late.accept()
        again.accept()
        other.flush()
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.5) is None


def test_messages_that_waited_beyond_their_lock_are_not_handed_out(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    """Somebody else has them by then; here they would be worked on twice."""
    set_group(group, share_record_lock_duration_ms=1000)
    send(topic, "one", "two")
    with open_queue(topic, group=group) as slow, open_queue(topic, group=group) as quick:
        first = slow.get(timeout=TIMEOUT_S)
        assert first is not None
        again = take(quick, 2)
        assert sorted(values(again)) == ["one", "two"]
        for message in again:
            message.accept()
        quick.flush()
        assert slow.get(timeout=0.1) is None


def test_threads_share_a_queue_and_each_message_is_seen_once(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    expected = [f"message {number}" for number in range(200)]
    send(topic, *expected)
    seen: list[str] = []

    def work() -> None:
        for message in queue:
            seen.append(message.value.decode())
            message.accept()
            if len(seen) >= len(expected):
                queue.stop()

    with open_queue(topic, group=group, members=2, prefetch=10) as queue:
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(TIMEOUT_S)
        queue.flush()
    assert sorted(seen) == sorted(expected)


def test_slow_message_keeps_no_other_thread_waiting(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "slow", *(f"quick {number}" for number in range(5)))
    with open_queue(topic, group=group, members=2, prefetch=1) as queue:
        slow, *quick = _take_and_accept_all_but_the_first(queue, 6)
        assert len(quick) == 5
        slow.accept()


def _take_and_accept_all_but_the_first(queue: object, count: int) -> list[Message]:
    taken: list[Message] = []
    for _ in range(count):
        (message,) = take(queue, 1)  # type: ignore[arg-type]
        if taken:
            message.accept()
        taken.append(message)
    return taken


def test_prefetch_is_kept_so_that_others_get_their_share(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, *(f"message {number}" for number in range(6)))
    with open_queue(topic, group=group, prefetch=2) as one, open_queue(topic, group=group, prefetch=2) as two:
        mine, yours = take(one, 2), take(two, 2)
        assert not {each.offset for each in mine} & {each.offset for each in yours}


def test_queue_without_a_topic_or_with_both_is_refused(open_queue: OpenQueue) -> None:
    with pytest.raises(QueueUnusable, match="topics or a pattern"):
        open_queue(group="g")
    with pytest.raises(QueueUnusable, match="topics or a pattern"):
        open_queue("emails", group="g", pattern="emails")


def test_unknown_begin_is_refused_when_the_queue_is_made(open_queue: OpenQueue) -> None:
    with pytest.raises(QueueUnusable, match=r"begin='now' is unknown.*earliest, latest"):
        open_queue("emails", group="g", begin="now")


def test_queue_without_a_broker_fails_at_once_with_the_address() -> None:
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


def test_one_thread_is_given_messages_of_all_members(
    open_queue: OpenQueue, create_topic: Callable[..., str], bootstrap: str, name: str, group: str
) -> None:
    """A group divides partitions among its members: the thread has to ask each of them."""
    topic = create_topic(name, partitions=8)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 1})
    with open_queue(topic, group=group, members=3, prefetch=1) as queue:
        for text in ("first", "second"):
            for partition in range(8):
                producer.produce(topic, text, partition=partition)
            assert producer.flush(TIMEOUT_S) == 0
            held = take(queue, 3)  # three members, each with its hands full
            for message in held:
                message.accept()
            for _ in range(5):
                take(queue, 1)[0].accept()


def test_process_accepts_at_its_end_and_settles_by_the_error(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "good", "busy", "bad")
    with open_queue(topic, group=group) as queue:
        good, busy, bad = take(queue, 3)
        with good.process():
            assert good.value == b"good"
        with pytest.raises(ConnectionError), busy.process(reject_on=(ValueError,)):
            raise ConnectionError("server is busy")
        with pytest.raises(ValueError, match="no such mailbox"), bad.process(reject_on=(ValueError,)):
            raise ValueError("no such mailbox")
        assert (good.is_settled, bad.is_settled) == (True, True)
        (again,) = take(queue, 1)
        assert (again.value, again.delivery_count) == (b"busy", 2)
        again.accept()
        queue.flush()
        assert queue.get(timeout=0.2) is None


def test_closed_queue_stays_closed(open_queue: OpenQueue, topic: str, group: str) -> None:
    with open_queue(topic, group=group) as queue:
        pass
    assert queue.get(timeout=0.1) is None
    with pytest.raises(QueueUnusable, match="was closed"):
        queue.open()


def test_where_a_group_begins_is_left_as_somebody_has_set_it(
    open_queue: OpenQueue, set_group: Callable[..., None], topic: str, group: str, send: Send
) -> None:
    set_group(group, share_auto_offset_reset="latest")
    send(topic, "before")
    with open_queue(topic, group=group) as queue:
        while (message := queue.get(timeout=1)) is None:
            send(topic, "after")  # what is sent until the group has begun is not for it
        assert message.value == b"after"
