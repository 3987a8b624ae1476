"""Handlers register themselves, each for one API and its versions."""

from __future__ import annotations

import pytest

from headrace.broker import handlers
from headrace.broker.dispatch import HANDLERS, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.unregister_broker import UnregisterBrokerResponse
from headrace.protocol.types import MESSAGE_INFO


def test_every_module_of_the_package_handles_its_api() -> None:
    registered = {handler.api_key.name.lower(): handler.function.__module__ for handler in HANDLERS.values()}
    assert registered == {name: f"{handlers.__name__}.{name}" for name in handlers.MODULES}


def test_every_version_that_is_served_can_be_read_and_written() -> None:
    for handler in HANDLERS.values():
        first, last = handler.versions
        assert all(handler.codecs(version) for version in range(first, last + 1)), handler.api_key
        assert handler.codecs(first - 1) is handler.codecs(last + 1) is None
        assert handler.advertised[1] <= last, handler.api_key


def test_handler_gets_the_messages_of_its_api() -> None:
    handler = HANDLERS[ApiKey.HEARTBEAT]
    assert (handler.request, handler.response) == (HeartbeatRequest, HeartbeatResponse)
    for handler in HANDLERS.values():
        assert (
            MESSAGE_INFO[handler.request].api_key == MESSAGE_INFO[handler.response].api_key == handler.api_key
        )


def test_rejection_has_the_message_if_the_response_has_a_field_for_it() -> None:
    rejected = RequestRejected(ErrorCode.INVALID_REQUEST, "no such broker")
    assert HANDLERS[ApiKey.HEARTBEAT].rejection(rejected) == HeartbeatResponse(
        error_code=ErrorCode.INVALID_REQUEST
    )
    assert HANDLERS[ApiKey.UNREGISTER_BROKER].rejection(rejected) == UnregisterBrokerResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="no such broker"
    )


def test_api_is_not_handled_twice() -> None:
    with pytest.raises(AssertionError, match="HEARTBEAT is handled twice"):
        handles(ApiKey.HEARTBEAT, versions=(0, 4))(lambda request, call: None)
