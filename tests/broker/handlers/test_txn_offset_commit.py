"""AddOffsetsToTxn and TxnOffsetCommit over the wire: offsets that count when their transaction is committed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.testing.wire import Wire
from tests.broker.consumer_group_requests import member
from tests.broker.group_requests import commit
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer, eventually

BOTH_WAYS = pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "KIP-890"])


@pytest.fixture
def group(any_group: str) -> str:
    return any_group


def producer(wire: Wire, is_classic: bool = True) -> TransactionalProducer:
    made = TransactionalProducer(wire, new_name("tx"), is_classic=is_classic)
    made.init()
    return made


def committed(wire: Wire, group: str, topic: str, *, require_stable: bool = False) -> tuple[int, int]:
    """(offset, error) of partition 0."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=(0,))
    request = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=require_stable
    )
    (response,) = wire.request(request, version=9).groups
    assert response.error_code == 0
    (partition,) = response.topics[0].partitions
    return partition.committed_offset, partition.error_code


@BOTH_WAYS
def test_offsets_are_visible_after_the_transaction_is_committed(
    any_wire: Wire, any_topic: str, group: str, is_classic: bool
) -> None:
    writer = producer(any_wire, is_classic)
    assert writer.commit_offsets(group, {(any_topic, 0): 7}) == [0]
    assert committed(any_wire, group, any_topic) == (-1, 0)
    assert committed(any_wire, group, any_topic, require_stable=True) == (
        -1,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    writer.commit()
    assert eventually(lambda: committed(any_wire, group, any_topic, require_stable=True), (7, 0))


@BOTH_WAYS
def test_offsets_of_an_aborted_transaction_are_never_visible(
    any_wire: Wire, any_topic: str, group: str, is_classic: bool
) -> None:
    writer = producer(any_wire, is_classic)
    writer.commit_offsets(group, {(any_topic, 0): 3})
    writer.commit()
    writer.commit_offsets(group, {(any_topic, 0): 9})
    writer.abort()
    assert eventually(lambda: committed(any_wire, group, any_topic, require_stable=True), (3, 0))


def test_a_later_commit_wins_over_an_earlier_one_whose_transaction_ends_after_it(
    any_wire: Wire, any_topic: str, group: str
) -> None:
    writer = producer(any_wire)
    writer.commit_offsets(group, {(any_topic, 0): 3})
    assert commit(any_wire, group, any_topic, 5) == 0
    writer.commit()
    assert eventually(lambda: committed(any_wire, group, any_topic, require_stable=True), (5, 0))


def test_offsets_outside_of_a_transaction_are_rejected(any_wire: Wire, any_topic: str, group: str) -> None:
    writer = producer(any_wire)
    codes = writer.commit_offsets(group, {(any_topic, 0): 3}, version=3)
    assert codes == [ErrorCode.INVALID_TXN_STATE]
    codes = writer.commit_offsets(group, {(any_topic, 0): 3}, version=4)
    assert codes == [ErrorCode.TRANSACTION_ABORTABLE]


def test_commit_of_an_unknown_member_is_rejected(any_wire: Wire, any_topic: str, group: str) -> None:
    assert commit(any_wire, group, any_topic, 1) == 0
    writer = producer(any_wire, is_classic=False)
    codes = writer.commit_offsets(group, {(any_topic, 0): 3}, generation_id=4, member_id="missing")
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]
    writer.abort()


def test_a_member_of_the_newer_protocol_commits_with_its_epoch_only(
    any_wire: Wire, any_topic: str, group: str
) -> None:
    joined = member(any_wire, group, str(uuid.uuid4()), any_topic)
    writer = producer(any_wire)

    def response(**who: Any) -> ErrorCode:
        (code,) = writer.commit_offsets(group, {(any_topic, 0): 3}, **who)
        return ErrorCode(code)

    assert response(member_id=joined.member_id, generation_id=joined.epoch) is ErrorCode.NONE
    assert response() is ErrorCode.NONE, "a producer need not name the member"
    for epoch in (joined.epoch + 1, -1):
        rejected = response(member_id=joined.member_id, generation_id=epoch)
        assert rejected is ErrorCode.ILLEGAL_GENERATION
    assert response(member_id="missing", generation_id=joined.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert response(generation_id=joined.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert response(group_instance_id="missing") is ErrorCode.UNKNOWN_MEMBER_ID
    writer.commit()
    assert eventually(lambda: committed(any_wire, group, any_topic), (3, 0))


def test_an_old_epoch_commits_nothing(any_wire: Wire, any_topic: str, group: str) -> None:
    old = producer(any_wire)
    TransactionalProducer(any_wire, old.transactional_id).init()
    request = AddOffsetsToTxnRequest(
        transactional_id=old.transactional_id,
        producer_id=old.producer_id,
        producer_epoch=old.epoch,
        group_id=group,
    )
    assert any_wire.request(request, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert any_wire.request(request, version=3).error_code == ErrorCode.PRODUCER_FENCED
    codes = old.commit_offsets(group, {(any_topic, 0): 3}, version=5)
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH]
