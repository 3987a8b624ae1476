"""A member of a share group: acknowledgements in ascending order, and no new messages while it holds some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaError
from confluent_kafka import Message as KafkaMessage

from headrace.queue.member import Member
from tests.queue.conftest import TIMEOUT_S, OpenQueue, Send


@contextmanager
def joined(bootstrap: str, topic: str, group: str, **config: Any) -> Iterator[Member]:
    member = Member(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
            **config,
        }
    )
    try:
        member.subscribe([topic])
        yield member
    finally:
        member.close(TIMEOUT_S)


@pytest.fixture
def three(open_queue: OpenQueue, topic: str, group: str, send: Send) -> str:
    """A topic with three messages that no worker of the group has taken."""
    with open_queue(topic, group=group):
        pass  # sets the start of the group to the first message
    send(topic, "a", "b", "c")
    return topic


def poll(member: Member, count: int) -> list[KafkaMessage]:
    messages: list[KafkaMessage] = []
    while len(messages) < count:
        messages += member.poll(TIMEOUT_S)
    return messages


def test_descending_acknowledgements_are_all_accepted(bootstrap: str, three: str, group: str) -> None:
    with joined(bootstrap, three, group) as member:
        messages = poll(member, 3)
        for message in reversed(messages):
            member.acknowledge(message, AcknowledgeType.ACCEPT)
        assert (member.held, member.unconfirmed) == (0, 3)
        assert member.has_waiting
        assert member.flush(TIMEOUT_S)
        assert (member.unconfirmed, member.lost) == (0, 0)


def test_message_that_is_held_forbids_the_next_poll(bootstrap: str, three: str, group: str) -> None:
    with joined(bootstrap, three, group) as member:
        assert len(poll(member, 3)) == member.held == 3
        with pytest.raises(AssertionError):
            member.poll(0)


def test_close_sends_acknowledgements_and_releases_the_other_messages(
    bootstrap: str, three: str, group: str
) -> None:
    with joined(bootstrap, three, group) as member:
        first, *_ = poll(member, 3)
        member.acknowledge(first, AcknowledgeType.ACCEPT)
        member.close(TIMEOUT_S)
        member.close(TIMEOUT_S)
        assert member.lost == 0
    with joined(bootstrap, three, group) as member:
        assert [(each.value(), each.delivery_count()) for each in poll(member, 2)] == [(b"b", 2), (b"c", 2)]


def test_acknowledgements_are_answered_one_by_one_while_the_caller_waits(
    bootstrap: str, three: str, group: str
) -> None:
    with joined(bootstrap, three, group) as member:
        messages = poll(member, 3)
        wanted = [(each, AcknowledgeType.ACCEPT) for each in reversed(messages)]
        assert member.acknowledge_and_wait(wanted, TIMEOUT_S) == [None] * 3
        assert (member.held, member.lost) == (0, 0)


def test_acknowledgement_of_a_lock_that_has_ended_is_answered_with_the_error(
    bootstrap: str, three: str, group: str, set_group: Callable[..., None]
) -> None:
    set_group(group, share_record_lock_duration_ms=1_000)
    with joined(bootstrap, three, group) as late, joined(bootstrap, three, group) as member:
        messages = poll(late, 3)
        poll(member, 3)  # when the locks have ended
        (error, *_) = late.acknowledge_and_wait(
            [(each, AcknowledgeType.ACCEPT) for each in messages], TIMEOUT_S
        )
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD_STATE
