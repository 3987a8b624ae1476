"""AlterClientQuotas and DescribeClientQuotas over the wire, as Apache Kafka answers them; and which limit applies."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.client_quotas import CLIENT_ID, USER, applicable
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from headrace.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually
from tests.broker.requests import new_name
from tests.faults.faulty_broker import broker_on

EXACT, DEFAULT, ANY = 0, 1, 2
Parts = Mapping[str, str | None]


def entry(parts: Iterable[tuple[str, str | None]], **limits: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(OpData(key=key, value=limit or 0, remove=limit is None) for key, limit in limits.items()),
    )


def alter(wire: Wire, parts: Parts, version: int = 1, /, **limits: float | None) -> int:
    """Set limits, or with None remove them; the error code."""
    request = AlterClientQuotasRequest(entries=(entry(parts.items(), **limits),))
    (answer,) = wire.ask(request, version=version).entries
    code: int = answer.error_code
    return code


def describe(
    wire: Wire, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    asked = tuple(
        ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
    )
    return wire.ask(DescribeClientQuotasRequest(components=asked, strict=strict), version=version)


def described(
    wire: Wire, *components: tuple[str, int, str | None], **options: Any
) -> dict[Any, dict[str, float]]:
    answer = describe(wire, *components, **options)
    assert answer.error_code == 0, answer
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in one.entity)): {
            limit.key: limit.value for limit in one.values
        }
        for one in answer.entries
    }


@pytest.mark.parametrize("version", range(2))
def test_quotas_are_set_described_and_removed(any_wire: Wire, version: int) -> None:
    user = new_name("u")
    of_user = ((USER, user),)

    def found() -> dict[Any, dict[str, float]]:
        return described(any_wire, (USER, EXACT, user), version=version)

    limits = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert alter(any_wire, {USER: user}, version, **limits) == 0
    eventually(lambda: found() == {of_user: limits}, "Kafka hears of the change")
    assert alter(any_wire, {USER: user}, version, producer_byte_rate=None, consumer_byte_rate=5) == 0
    changed = {of_user: {"request_percentage": 12.5, "consumer_byte_rate": 5.0}}
    eventually(lambda: found() == changed, "Kafka hears of the change")
    removed = {"request_percentage": None, "consumer_byte_rate": None}
    assert alter(any_wire, {USER: user}, version, **removed) == 0
    eventually(lambda: found() == {}, "Kafka hears of the change")


def test_a_filter_matches_names_defaults_and_all_strictly_or_not(any_wire: Wire) -> None:
    user, client = new_name("u"), new_name("c")
    both = ((CLIENT_ID, client), (USER, user))
    by_default = ((CLIENT_ID, client), (USER, None))
    for parts in ({USER: user}, dict(both), dict(by_default)):
        assert alter(any_wire, parts, producer_byte_rate=7) == 0
    # Other tests of this run may have set quotas on the same broker.
    eventually(lambda: by_default in described(any_wire), "Kafka hears of the changes")
    assert described(any_wire, (USER, EXACT, user)).keys() == {((USER, user),), both}
    assert described(any_wire, (USER, EXACT, user), strict=True).keys() == {((USER, user),)}
    assert described(any_wire, (CLIENT_ID, EXACT, client)).keys() == {both, by_default}
    assert described(any_wire, (CLIENT_ID, EXACT, client), (USER, DEFAULT, None)).keys() == {by_default}
    assert {both, by_default} <= described(
        any_wire, (CLIENT_ID, ANY, None), (USER, ANY, None), strict=True
    ).keys()
    assert described(any_wire, strict=True) == {}
    for parts in ({USER: user}, dict(both), dict(by_default)):
        assert alter(any_wire, parts, producer_byte_rate=None) == 0


@pytest.mark.parametrize(
    ("parts", "limits"),
    [
        ({}, {"producer_byte_rate": 1}),
        ({"group": "g"}, {"producer_byte_rate": 1}),
        ({USER: ""}, {"producer_byte_rate": 1}),
        ({"ip": "192.0.2.1", USER: "u"}, {"connection_creation_rate": 1}),
        ({"ip": "no address"}, {"connection_creation_rate": 1}),
        ({"ip": "192.0.2.1"}, {"producer_byte_rate": 1}),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": 1.5}),
        ({USER: "u"}, {"connection_creation_rate": 1}),
        ({USER: "u"}, {"no_such_quota": 1}),
        ({USER: "u"}, {"producer_byte_rate": -1}),
        ({USER: "u"}, {"producer_byte_rate": 1.5}),
        ({USER: "u"}, {"producer_byte_rate": math.inf}),
        ({USER: "u"}, {"producer_byte_rate": 1e30}),
    ],
)
def test_quota_that_is_impossible_is_refused(any_wire: Wire, parts: Parts, limits: dict[str, float]) -> None:
    assert alter(any_wire, parts, **limits) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, 7, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([(USER, ANY, "u")], ErrorCode.INVALID_REQUEST),
        ([(USER, ANY, None), (USER, EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), (USER, ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filter_that_is_impossible_is_refused(
    any_wire: Wire, components: list[tuple[str, int, str | None]], expected: ErrorCode
) -> None:
    answer = describe(any_wire, *components)
    assert (answer.error_code, answer.entries) == (expected, None)


def test_validation_changes_nothing(any_wire: Wire) -> None:
    user = new_name("u")
    changes = (entry([(USER, user)], producer_byte_rate=1),)
    (answer,) = any_wire.ask(AlterClientQuotasRequest(entries=changes, validate_only=True)).entries
    assert answer.error_code == 0
    assert described(any_wire, (USER, EXACT, user)) == {}


def test_one_impossible_entry_leaves_the_others(wire: Wire) -> None:
    user = new_name("u")
    changes = (entry([(USER, user)], producer_byte_rate=1), entry([("group", "g")], producer_byte_rate=1))
    answers = wire.ask(AlterClientQuotasRequest(entries=changes)).entries
    assert [one.error_code for one in answers] == [0, ErrorCode.INVALID_REQUEST]
    assert described(wire, (USER, EXACT, user)) == {((USER, user),): {"producer_byte_rate": 1.0}}
    assert alter(wire, {USER: user}, producer_byte_rate=None) == 0


def test_quotas_survive_a_restart(start_broker: StartBroker, connect: Connect, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path)
    assert alter(connect(broker), {USER: None, CLIENT_ID: "c"}, producer_byte_rate=9) == 0
    broker.stop()
    again = connect(start_broker(data_dir=tmp_path))
    assert described(again) == {((CLIENT_ID, "c"), (USER, None)): {"producer_byte_rate": 9.0}}


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
