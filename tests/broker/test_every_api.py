"""Every API in every version that is served: a request gets a response that decodes, and no handler fails."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

import headrace.broker.handlers  # noqa: F401  (registers all of them)
from headrace.broker.dispatch import HANDLERS
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.schema import Encoding, fields_at
from headrace.protocol.types import Wire as WireType
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually, metrics
from tests.protocol.samples import random_samples

SERVED = [
    pytest.param(handler.request, version, id=f"{handler.api_key.name.lower()}-{version}")
    for _, handler in sorted(HANDLERS.items())
    for version in range(handler.versions[0], handler.versions[1] + 1)
]


def smallest(cls: type[Any], version: int, elements: int) -> Any:
    """A request of zeros and empty texts, with so many elements in every array."""
    values = {
        field.name: _smallest(field.encoding, version, elements)
        for field in fields_at(cls, version)
        if field.tag is None
    }
    # Without acknowledgements there would be no response.
    return cls(**{**values, "acks": -1}) if "acks" in values else cls(**values)


def _smallest(encoding: Encoding, version: int, elements: int) -> Any:
    if encoding.struct is not None:
        return smallest(encoding.struct, version, elements)
    if encoding.element is not None:
        return tuple(_smallest(encoding.element, version, elements) for _ in range(elements))
    if encoding.wire is WireType.STRING:
        return ""
    if encoding.wire in (WireType.BYTES, WireType.RECORDS):
        return b""
    return {WireType.UUID: uuid.UUID(int=0), WireType.BOOL: False}.get(encoding.wire, 0)  # type: ignore[arg-type]


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


@pytest.mark.parametrize(("request_class", "version"), SERVED)
def test_smallest_request_gets_a_response(
    wire: Wire, request_class: type[Any], version: int, caplog: pytest.LogCaptureFixture
) -> None:
    for elements in (0, 1, 2):
        wire.request(smallest(request_class, version, elements), version=version)
    assert failures(caplog) == []


@pytest.mark.parametrize(("request_class", "version"), SERVED)
def test_unknown_names_get_a_response(
    wire: Wire, request_class: type[Any], version: int, caplog: pytest.LogCaptureFixture
) -> None:
    request = _with_texts(smallest(request_class, version, 1), "no-such-thing")
    wire.request(request, version=version)
    assert failures(caplog) == []


def _with_texts(value: Any, text: str) -> Any:
    """The same message with every empty text replaced."""
    if value == "" and isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(_with_texts(one, text) for one in value)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        return type(value)(**{name: _with_texts(each, text) for name, each in fields.items()})
    return value


def test_any_values_fail_no_handler(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Well-formed requests with random values, ten of every API and version; some wait, so responses are not read."""
    broker = start_broker(durability="os", partitions_max=50, metrics_port=0)
    sent = 0
    for handler in HANDLERS.values():
        for version in range(handler.versions[0], handler.versions[1] + 1):
            for request in random_samples(handler.request, version, 10):
                # A connection for each: a response that waits must not delay the next request.
                with Wire(broker.bootstrap) as wire:
                    wire.send(request, version=version)
                    sent += 1
    eventually(lambda: _requests(broker) >= sent, "all of them were taken in")
    assert connect(broker).request(ApiVersionsRequest()).error_code == 0
    assert failures(caplog) == []
    assert metrics(broker)["headrace_requests_failed_total"] == 0


def _requests(broker: Any) -> float:
    return sum(value for name, value in metrics(broker).items() if name.startswith("headrace_requests_total"))


def test_advertised_versions_are_served(wire: Wire) -> None:
    response = wire.request(ApiVersionsRequest(), version=3)
    reported = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    served = {key: handler.versions for key, handler in HANDLERS.items()}
    # librdkafka turns compression off unless Produce is advertised from 0 on; no client sends a version below 3.
    assert {**served, ApiKey.PRODUCE: (0, served[ApiKey.PRODUCE][1])} == reported
