"""Dead letters: rejected messages with the reason, listed, redriven and purged."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from headrace.queue.dead_letters import DeadLetters, Discarded, NoDeadLetters, matching
from headrace.queue.errors import QueueError, QueueUnusable
from headrace.queue.letters import DeadLetter
from headrace.queue.message import MessageId
from headrace.testing.ports import free_ports
from tests.compatibility.topic_contents import read_to_end
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send, take, values


def letters_when(letters: DeadLetters, count: int) -> list[DeadLetter]:
    """The letters, once there are so many: the broker writes them after it has answered the rejection."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while letters.count() < count:
        assert time.monotonic() < deadline_s, f"only {letters.count()} letters"
        time.sleep(0.02)
    return list(letters.read())


@pytest.fixture
def letters(bootstrap: str, group: str) -> DeadLetters:
    return DeadLetters(group, bootstrap=bootstrap)


@pytest.fixture
def reject(open_queue: OpenQueue, topic: str, group: str, send: Send) -> Callable[..., None]:
    """Send messages and reject each: `reject(mail_1="no such mailbox")`."""

    def reject(**reasons: str) -> None:
        send(topic, *reasons, key="k", colour="red")
        with open_queue(topic, group=group) as queue:
            for message in take(queue, len(reasons)):
                message.reject(reasons[message.value.decode()])

    return reject


def test_rejected_message_becomes_a_letter_with_its_content_and_the_reason(
    letters: DeadLetters, reject: Callable[..., None], topic: str, group: str
) -> None:
    reject(mail="no such mailbox")
    (letter,) = letters_when(letters, 1)
    assert letter.original == MessageId(topic, 0, 0)
    assert (letter.reason, letter.group, letter.delivery_count) == ("no such mailbox", group, 1)
    assert (letter.key, letter.value, letter.headers) == (b"k", b"mail", [("colour", b"red")])


def test_rejected_message_is_not_delivered_again(
    letters: DeadLetters,
    reject: Callable[..., None],
    open_queue: OpenQueue,
    topic: str,
    group: str,
    send: Send,
) -> None:
    reject(mail="bad")
    send(topic, "next")
    with open_queue(topic, group=group) as queue:
        assert values(take(queue, 1)) == ["next"]


def test_message_that_is_released_too_often_becomes_a_letter_with_its_last_reason(
    letters: DeadLetters,
    open_queue: OpenQueue,
    set_group: Callable[..., None],
    topic: str,
    group: str,
    send: Send,
) -> None:
    set_group(group, share_delivery_count_limit=2)
    send(topic, "poison")
    with open_queue(topic, group=group) as queue:
        take(queue, 1)[0].release("first")
        take(queue, 1)[0].release("server is down")
        (letter,) = letters_when(letters, 1)
        assert (letter.value, letter.delivery_count, letter.reason) == (b"poison", 2, "server is down")
        assert queue.get(timeout=0.2) is None


def test_letters_go_to_the_topic_that_the_queue_names(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, name: str, send: Send
) -> None:
    send(topic, "bad")
    with open_queue(topic, group=group, dead_letters=f"{name}-graveyard") as queue:
        take(queue, 1)[0].reject("bad")
    letters = DeadLetters(group, bootstrap=bootstrap, topic=f"{name}-graveyard")
    assert [letter.value for letter in letters_when(letters, 1)] == [b"bad"]


def test_redrive_writes_the_original_message_with_a_redrive_count(
    letters: DeadLetters, reject: Callable[..., None], open_queue: OpenQueue, topic: str, group: str
) -> None:
    reject(one="bad", two="bad")
    letters_when(letters, 2)
    done = letters.redrive()
    assert (done.redriven, done.left) == (2, 0)
    assert list(letters.read()) == []
    with open_queue(topic, group=group) as queue:
        again = take(queue, 2)
        assert sorted(values(again)) == ["one", "two"]
        assert {message.key for message in again} == {b"k"}
        assert again[0].headers == [("colour", b"red"), ("headrace.redrive.count", b"1")]
        again[0].reject("still bad")
        again[1].accept()
    (letter,) = letters_when(letters, 1)
    assert (letter.reason, letter.redrive_count) == ("still bad", 1)


def test_redrive_of_some_leaves_the_others_to_be_listed(
    letters: DeadLetters, reject: Callable[..., None], open_queue: OpenQueue, topic: str, group: str
) -> None:
    reject(one="mailbox full", two="no such mailbox", three="mailbox full")
    before = {letter.value: letter for letter in letters_when(letters, 3)}
    done = letters.redrive(matching("full"))
    assert (done.redriven, done.left) == (2, 1)
    (left,) = letters.read()
    assert (left.value, left.reason) == (b"two", "no such mailbox")
    assert left.timestamp_ms == before[b"two"].timestamp_ms
    with open_queue(topic, group=group) as queue:
        assert sorted(values(take(queue, 2))) == ["one", "three"]


def test_discarded_letters_are_neither_listed_nor_redriven(
    letters: DeadLetters, reject: Callable[..., None], topic: str, bootstrap: str
) -> None:
    reject(one="mailbox full", two="no such mailbox", three="mailbox full")
    letters_when(letters, 3)
    done = letters.discard(matching("full"))
    assert (done.discarded, done.left) == (2, 1)
    assert [letter.value for letter in letters.read()] == [b"two"]
    assert letters.discard() == Discarded(discarded=1, left=0)
    assert letters.redrive().redriven == 0
    assert len(read_to_end(bootstrap, topic)) == 3


def test_interrupted_redrive_loses_nothing(
    letters: DeadLetters, reject: Callable[..., None], open_queue: OpenQueue, topic: str, group: str
) -> None:
    reject(one="bad", two="bad", three="bad")
    letters_when(letters, 3)

    def is_wanted(letter: DeadLetter) -> bool:
        if letter.value == b"three":
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        letters.redrive(is_wanted)
    assert len(list(letters.read())) == 3
    letters.redrive()
    with open_queue(topic, group=group) as queue:
        seen: set[str] = set()
        while len(seen) < 3:
            (message,) = take(queue, 1)
            seen.add(message.value.decode())
            message.accept()


def test_groups_that_share_a_topic_see_only_their_own_letters(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, name: str, send: Send
) -> None:
    send(topic, "bad")
    groups = [group, f"{group}-2"]
    for each in groups:
        with open_queue(topic, group=each, dead_letters=f"{name}-shared") as queue:
            take(queue, 1)[0].reject(f"rejected by {each}")
    mine, yours = (DeadLetters(each, bootstrap=bootstrap, topic=f"{name}-shared") for each in groups)
    letters_when(mine, 2)
    assert [letter.reason for letter in mine.read()] == [f"rejected by {group}"]
    with pytest.raises(QueueError, match=f"letters of {group}-2"):
        mine.purge()
    assert mine.redrive().redriven == 1
    assert [letter.reason for letter in yours.read()] == [f"rejected by {group}-2"]


def test_purge_deletes_all_letters(letters: DeadLetters, reject: Callable[..., None]) -> None:
    reject(one="bad", two="bad")
    letters_when(letters, 2)
    assert letters.purge() == 2
    assert (letters.count(), list(letters.read())) == (0, [])


def test_letter_is_found_by_its_partition_and_offset(
    letters: DeadLetters, reject: Callable[..., None]
) -> None:
    reject(one="bad", two="worse")
    ids = {letter.id for letter in letters_when(letters, 2)}
    assert {letters.get(each.partition, each.offset).reason for each in ids} == {"bad", "worse"}
    with pytest.raises(NoDeadLetters, match="0:99"):
        letters.get(0, 99)


def test_group_without_letters_is_an_error_that_names_the_topic(letters: DeadLetters, topic: str) -> None:
    assert letters.count() == 0
    with pytest.raises(NoDeadLetters, match=re.escape(letters.topic)):
        list(letters.read())


def test_letters_without_a_broker_fail_immediately_with_the_address() -> None:
    """With a time limit that the test would not survive."""
    (port,) = free_ports(1)
    with pytest.raises(QueueUnusable, match=rf"no broker answers at 127\.0\.0\.1:{port}"):
        DeadLetters("senders", bootstrap=f"127.0.0.1:{port}", timeout_s=3600)


def test_pattern_that_is_no_regular_expression_is_rejected() -> None:
    with pytest.raises(QueueError, match="not a regular expression"):
        matching("(")


def test_rejection_without_dead_letters_only_removes_the_message(
    bootstrap: str, open_queue: OpenQueue, topic: str, group: str, send: Send
) -> None:
    send(topic, "bad", "good")
    with open_queue(topic, group=group, dead_letters="") as queue:
        bad, good = take(queue, 2)
        bad.reject("bad")
        good.accept()
        queue.flush()
        assert queue.get(timeout=0.2) is None
    assert DeadLetters(group, bootstrap=bootstrap).count() == 0
