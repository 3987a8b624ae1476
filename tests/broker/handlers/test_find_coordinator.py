"""FindCoordinator over the wire."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Wire
from tests.faults.faulty_broker import broker_on

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_is_the_broker_of_the_connection(
    headrace_broker: Broker, wire: Wire, version: int
) -> None:
    response = wire.request(FindCoordinatorRequest(key="g"), version=version)
    assert (response.error_code, f"{response.host}:{response.port}") == (0, headrace_broker.bootstrap)


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_every_key_of_a_request_gets_its_coordinator(
    headrace_broker: Broker, wire: Wire, version: int, key_type: int
) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a", "b"))
    found = wire.request(request, version=version).coordinators
    assert [(one.key, f"{one.host}:{one.port}", one.error_code) for one in found] == [
        (key, headrace_broker.bootstrap, 0) for key in "ab"
    ]


@pytest.mark.parametrize("key_type", [SHARE, 9])
def test_a_kind_of_key_that_is_not_served_is_an_error(wire: Wire, key_type: int) -> None:
    (found,) = wire.request(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a",))).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert found.error_message


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_coordinator_whose_topic_cannot_be_created_is_not_available(tmp_path: Path, key_type: int) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        full = files.fail("write_whole", "*/topics/*", error_number=errno.ENOSPC, times=None)
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("a",))
        (found,) = wire.request(request).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        full.times = 0
        (found,) = wire.request(request).coordinators
        assert found.error_code == 0
