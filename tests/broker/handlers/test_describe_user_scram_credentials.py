"""DescribeUserScramCredentials over the wire, as an Apache Kafka without any answers it."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from headrace.testing.wire import Wire


def test_no_user_has_credentials(any_wire: Wire) -> None:
    answer = any_wire.ask(DescribeUserScramCredentialsRequest(users=None))
    assert (answer.error_code, answer.results) == (0, ())
    asked = DescribeUserScramCredentialsRequest(users=(UserName(name="ann"),))
    (result,) = any_wire.ask(asked).results
    assert (result.user, result.error_code) == ("ann", ErrorCode.RESOURCE_NOT_FOUND)
