"""AlterClientQuotas over the wire, compared with Apache Kafka."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headrace.broker.configs.client_quotas import USER
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from headrace.testing.wire import Wire
from tests.broker.observing import eventually
from tests.broker.quota_requests import EXACT, Parts, alter, described, entry
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(2))
def test_quotas_are_set_described_and_removed(any_wire: Wire, version: int) -> None:
    user = new_name("u")
    of_user = ((USER, user),)

    def found() -> dict[Any, dict[str, float]]:
        return described(any_wire, (USER, EXACT, user), version=version)

    limits = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert alter(any_wire, {USER: user}, version, **limits) == 0
    eventually(lambda: found() == {of_user: limits}, "Kafka applies the change")
    assert alter(any_wire, {USER: user}, version, producer_byte_rate=None, consumer_byte_rate=5) == 0
    changed = {of_user: {"request_percentage": 12.5, "consumer_byte_rate": 5.0}}
    eventually(lambda: found() == changed, "Kafka applies the change")
    removed = {"request_percentage": None, "consumer_byte_rate": None}
    assert alter(any_wire, {USER: user}, version, **removed) == 0
    eventually(lambda: found() == {}, "Kafka applies the change")


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
def test_invalid_quota_is_rejected(any_wire: Wire, parts: Parts, limits: dict[str, float]) -> None:
    assert alter(any_wire, parts, **limits) == ErrorCode.INVALID_REQUEST


def test_validation_changes_nothing(any_wire: Wire) -> None:
    user = new_name("u")
    changes = (entry([(USER, user)], producer_byte_rate=1),)
    (response,) = any_wire.request(AlterClientQuotasRequest(entries=changes, validate_only=True)).entries
    assert response.error_code == 0
    assert described(any_wire, (USER, EXACT, user)) == {}


def test_invalid_entry_does_not_fail_the_others(wire: Wire) -> None:
    user = new_name("u")
    changes = (entry([(USER, user)], producer_byte_rate=1), entry([("group", "g")], producer_byte_rate=1))
    responses = wire.request(AlterClientQuotasRequest(entries=changes)).entries
    assert [one.error_code for one in responses] == [0, ErrorCode.INVALID_REQUEST]
    assert described(wire, (USER, EXACT, user)) == {((USER, user),): {"producer_byte_rate": 1.0}}
    assert alter(wire, {USER: user}, producer_byte_rate=None) == 0
