"""Acknowledgements in the protocol's form, and their outcomes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.client import Client
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.requests import RENEW_SINCE, Acknowledging, acknowledgements
from headrace.broker.shares.sessions import SessionKey
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.share_fetch import AcknowledgementBatch
from tests.broker.state_topics import parts_in


def batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)


def rejected(batches: Sequence[AcknowledgementBatch], version: int = RENEW_SINCE) -> ErrorCode:
    with pytest.raises(RequestRejected) as rejection:
        acknowledgements(batches, version)
    return rejection.value.code


@given(st.lists(st.sampled_from([*AcknowledgeType]), min_size=1))
def test_runs_of_the_same_type_are_one_acknowledgement(types: list[AcknowledgeType]) -> None:
    found = acknowledgements([batch(5, 4 + len(types), *types)], RENEW_SINCE)
    assert [one.type for one in found for _ in range(one.first, one.last + 1)] == types
    assert found[0].first == 5
    if len(types) > 1:
        assert all(one.type != other.type for one, other in pairwise(found))


def test_one_type_is_for_all_offsets_of_a_batch() -> None:
    assert acknowledgements([batch(3, 9, AcknowledgeType.ACCEPT)], 1) == [
        Acknowledgement(3, 9, AcknowledgeType.ACCEPT)
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [batch(5, 4, 1)],
        [batch(0, 2, 1, 1)],
        [batch(0, 2)],
        [batch(0, 2, 1), batch(2, 3, 1)],
        [batch(4, 5, 1), batch(0, 1, 1)],
        [batch(-1, 1, 1)],
        [batch(0, 0, 5)],
        [batch(0, 0, -1)],
    ],
)
def test_invalid_acknowledgements_are_rejected(batches: Sequence[AcknowledgementBatch]) -> None:
    assert rejected(batches) is ErrorCode.INVALID_REQUEST


def test_locks_are_renewed_from_version_2_on() -> None:
    renewal = [batch(0, 0, AcknowledgeType.RENEW)]
    assert rejected(renewal, RENEW_SINCE - 1) is ErrorCode.INVALID_REQUEST
    assert [one.type for one in acknowledgements(renewal, RENEW_SINCE)] == [AcknowledgeType.RENEW]


def test_outcome_of_each_partition_is_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            parts.shares.load()
            await parts.shares.ready()
            topic = parts.topics.create("a", 1, {})
            parts.shares.start_topic("g", topic)
            client = Client(host="h", port=1, local_host="h", local_port=2)
            session = parts.shares.sessions.open(SessionKey("g", "m"), client)
            acknowledging = Acknowledging(session, shares=parts.shares, topics=parts.topics, version=1)
            accepted = [batch(0, 0, AcknowledgeType.ACCEPT)]
            unknown_id = uuid.UUID(int=9)
            for topic_id, partition in ((topic.id, 0), (topic.id, 7), (unknown_id, 0)):
                acknowledging.add(topic_id, partition, accepted)
            outcomes = await acknowledging.outcomes()
            assert {key: outcome.code for key, outcome in outcomes.items()} == {
                (topic.id, 0): ErrorCode.INVALID_RECORD_STATE,
                (topic.id, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (unknown_id, 0): ErrorCode.UNKNOWN_TOPIC_ID,
            }
            parts.shares.close()

    asyncio.run(scenario())
