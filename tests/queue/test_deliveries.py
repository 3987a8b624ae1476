"""Messages of a queue are locked for one worker, shared by its threads, and released when they are not acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headrace.queue import AcknowledgementLost, AlreadyAcknowledged, Message
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


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


def test_get_returns_none_after_its_timeout(open_queue: OpenQueue, topic: str, group: str) -> None:
    with open_queue(topic, group=group) as queue:
        assert queue.get(timeout=0.1) is None


def test_close_releases_the_messages_that_were_not_acknowledged(
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
    with pytest.raises(AlreadyAcknowledged, match="when its queue was closed"):
        unseen.accept()


def test_error_in_the_worker_releases_its_message(
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


def test_message_whose_lock_timed_out_is_redelivered_and_its_late_acceptance_is_an_error(
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


def test_late_acknowledgement_does_not_fail_the_valid_ones(
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


def test_messages_whose_lock_timed_out_before_they_were_taken_are_dropped(
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


def test_threads_share_a_queue_and_each_message_is_delivered_once(
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


def test_slow_message_does_not_block_other_threads(
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


def test_prefetch_limits_the_messages_of_one_worker(
    open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, *(f"message {number}" for number in range(6)))
    with open_queue(topic, group=group, prefetch=2) as one, open_queue(topic, group=group, prefetch=2) as two:
        mine, yours = take(one, 2), take(two, 2)
        assert not {each.offset for each in mine} & {each.offset for each in yours}


def test_one_thread_gets_the_messages_of_all_members(
    open_queue: OpenQueue, create_topic: Callable[..., str], bootstrap: str, name: str, group: str
) -> None:
    """A group divides partitions among its members: the thread has to poll each of them."""
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
