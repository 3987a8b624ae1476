"""UnregisterBroker over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.testing.wire import Wire


def test_broker_that_is_not_there_cannot_be_forgotten(any_wire: Wire) -> None:
    answer = any_wire.ask(UnregisterBrokerRequest(broker_id=7))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_broker_that_runs_cannot_be_forgotten(wire: Wire) -> None:
    assert wire.ask(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.INVALID_REQUEST
