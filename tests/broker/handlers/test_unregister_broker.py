"""UnregisterBroker over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.testing.wire import Wire


def test_missing_broker_cannot_be_unregistered(any_wire: Wire) -> None:
    response = any_wire.request(UnregisterBrokerRequest(broker_id=7))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_running_broker_cannot_be_unregistered(wire: Wire) -> None:
    assert wire.request(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.INVALID_REQUEST
