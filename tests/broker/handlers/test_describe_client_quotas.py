"""DescribeClientQuotas over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.broker.configs.client_quotas import CLIENT_ID, USER
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.observing import eventually
from tests.broker.quota_requests import ANY, DEFAULT, EXACT, alter, describe, described
from tests.broker.requests import new_name


def test_a_filter_matches_names_defaults_and_all_strictly_or_not(any_wire: Wire) -> None:
    user, client = new_name("u"), new_name("c")
    both = ((CLIENT_ID, client), (USER, user))
    by_default = ((CLIENT_ID, client), (USER, None))
    for parts in ({USER: user}, dict(both), dict(by_default)):
        assert alter(any_wire, parts, producer_byte_rate=7) == 0
    # Other tests of this run may have set quotas on the same broker.
    eventually(lambda: by_default in described(any_wire), "Kafka applies the changes")
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
def test_invalid_filter_is_rejected(
    any_wire: Wire, components: list[tuple[str, int, str | None]], expected: ErrorCode
) -> None:
    response = describe(any_wire, *components)
    assert (response.error_code, response.entries) == (expected, None)
