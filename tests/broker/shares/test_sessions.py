"""Share sessions: each request once, in its order, and no partition of a member starves."""

from __future__ import annotations

import uuid

import pytest

from headrace.broker.client import Client
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.sessions import (
    EPOCH_MAX,
    FINAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareSessions,
)

KEY = SessionKey("g", "m")


def client() -> Client:
    return Client(host="127.0.0.1", port=1, local_host="127.0.0.1", local_port=2)


def partition(index: int) -> PartitionKey:
    return PartitionKey(uuid.UUID(int=1), index)


def test_request_takes_effect_once() -> None:
    sessions, one = ShareSessions(10), client()
    session = sessions.open(KEY, one)
    assert sessions.advance(KEY, 1, one) is session
    for epoch in (1, 3):
        with pytest.raises(RequestRejected, match="INVALID_SHARE_SESSION_EPOCH"):
            sessions.advance(KEY, epoch, one)
    assert sessions.advance(KEY, 2, one) is session
    assert sessions.advance(KEY, FINAL_EPOCH, one) is session
    sessions.close(KEY)
    assert session.is_closed
    with pytest.raises(RequestRejected, match="SHARE_SESSION_NOT_FOUND"):
        sessions.advance(KEY, 3, one)


def test_first_epoch_follows_the_last() -> None:
    sessions, one = ShareSessions(10), client()
    session = sessions.open(KEY, one)
    session.epoch = EPOCH_MAX
    sessions.advance(KEY, EPOCH_MAX, one)
    assert session.epoch == 1


def test_session_that_is_opened_again_replaces_the_older_one_also_at_the_bound() -> None:
    sessions, one = ShareSessions(1), client()
    old = sessions.open(KEY, one)
    new = sessions.open(KEY, one)
    assert (old.is_closed, new.is_closed, len(sessions)) == (True, False, 1)
    with pytest.raises(RequestRejected, match="SHARE_SESSION_LIMIT_REACHED"):
        sessions.open(SessionKey("g", "other"), one)
    assert sessions.of_client(one) == [new]


def test_session_belongs_to_the_connection_of_its_last_request() -> None:
    sessions, before, after = ShareSessions(10), client(), client()
    session = sessions.open(KEY, before)
    sessions.advance(KEY, 1, after)
    assert (sessions.of_client(before), sessions.of_client(after)) == ([], [session])
    sessions.close(KEY)
    assert sessions.of_client(after) == []


def test_partition_with_records_is_the_last_in_the_next_request() -> None:
    session = ShareSessions(10).open(KEY, client())
    session.follow([partition(0), partition(1), partition(2)], [])
    session.rotate([partition(0), partition(9)])
    assert [key.partition for key in session.partitions] == [1, 2, 0]
    session.follow([partition(2), partition(3)], [partition(1)])
    assert [key.partition for key in session.partitions] == [2, 0, 3]
