"""Client quotas: stored, bounded, and which limit applies."""

from __future__ import annotations

import errno
import math
from pathlib import Path

from headrace.broker.configs.client_quotas import CLIENT_ID, USER, applicable
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.quota_requests import alter, described
from tests.faults.faulty_broker import broker_on


def test_quotas_survive_a_restart(start_broker: StartBroker, connect: Connect, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path)
    limits = {"producer_byte_rate": 9.0, "request_percentage": math.inf}
    assert alter(connect(broker), {USER: None, CLIENT_ID: "c"}, **limits) == 0
    broker.stop()
    again = connect(start_broker(data_dir=tmp_path))
    assert described(again) == {((CLIENT_ID, "c"), (USER, None)): limits}


def test_quota_that_cannot_be_stored_is_not_set(tmp_path: Path) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        files.fail("write_whole", "*/client-quotas.json", error_number=errno.ENOSPC)
        assert alter(wire, {USER: "a"}, producer_byte_rate=1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert described(wire) == {}
        assert alter(wire, {USER: "a"}, producer_byte_rate=1) == 0
        assert described(wire) == {((USER, "a"),): {"producer_byte_rate": 1.0}}


def test_quotas_are_bounded(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(client_quotas_max=1))
    assert alter(wire, {USER: "a"}, producer_byte_rate=1) == 0
    assert alter(wire, {USER: "b"}, producer_byte_rate=1) == ErrorCode.POLICY_VIOLATION
    assert alter(wire, {USER: "a"}, producer_byte_rate=2) == 0
    assert alter(wire, {USER: "a"}, producer_byte_rate=None) == 0
    assert alter(wire, {USER: "b"}, producer_byte_rate=1) == 0


def test_the_limit_of_the_narrowest_entity_applies() -> None:
    """The order is that of Kafka's documentation; a limit of a user is shared by all of its clients."""
    both, user, client = ((CLIENT_ID, "c"), (USER, "u")), ((USER, "u"),), ((CLIENT_ID, "c"),)
    assert applicable("c", "u") == [
        (((CLIENT_ID, "c"), (USER, "u")), both),
        (((CLIENT_ID, None), (USER, "u")), both),
        (((USER, "u"),), user),
        (((CLIENT_ID, "c"), (USER, None)), both),
        (((CLIENT_ID, None), (USER, None)), both),
        (((USER, None),), user),
        (((CLIENT_ID, "c"),), client),
        (((CLIENT_ID, None),), client),
    ]
