"""InitProducerId of transactional producers over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.testing.wire import Wire
from tests.broker.requests import new_name
from tests.broker.transaction_requests import TransactionalProducer, committed_values, eventually


def test_every_instance_of_an_id_has_the_next_epoch(any_wire: Wire) -> None:
    writer = TransactionalProducer(any_wire, new_name("tx"))
    first, second = writer.init(), writer.init()
    assert first.producer_id == second.producer_id >= 0
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)


def test_a_new_instance_aborts_what_the_old_one_left_open(any_wire: Wire, any_topic: str) -> None:
    old = TransactionalProducer(any_wire, new_name("tx"))
    old.init()
    old.write(any_topic, b"left open")
    new = TransactionalProducer(any_wire, old.transactional_id)
    # The first response is a retriable error; the helper retries.
    assert new.init().producer_epoch > old.epoch
    new.write(any_topic, b"done")
    new.commit()
    assert eventually(lambda: committed_values(any_wire, any_topic), [b"done"])


def test_new_instance_retries_while_the_old_transaction_is_aborted(any_wire: Wire, any_topic: str) -> None:
    old = TransactionalProducer(any_wire, new_name("tx"))
    old.init()
    old.write(any_topic, b"left open")
    request = InitProducerIdRequest(transactional_id=old.transactional_id)
    assert any_wire.request(request, version=5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_producer_may_raise_its_own_epoch_and_an_old_one_may_not(any_wire: Wire) -> None:
    writer = TransactionalProducer(any_wire, new_name("tx"))
    writer.init()
    held = {"producer_id": writer.producer_id, "producer_epoch": writer.epoch}
    raised = writer.init(**held)
    again = writer.init(**held)
    assert raised.producer_epoch == again.producer_epoch == 1, "the response may have been lost"
    writer.init()
    assert writer.init(**held).error_code == ErrorCode.PRODUCER_FENCED


def test_before_version_4_fencing_has_another_name(any_wire: Wire) -> None:
    writer = TransactionalProducer(any_wire, new_name("tx"))
    writer.init()
    writer.init()
    writer.init()
    request = InitProducerIdRequest(
        transactional_id=writer.transactional_id, producer_id=writer.producer_id, producer_epoch=0
    )
    assert any_wire.request(request, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_producer_is_rejected(any_wire: Wire, changes: dict[str, object], error: ErrorCode) -> None:
    assert TransactionalProducer(any_wire, new_name("tx")).init(**changes).error_code == error
