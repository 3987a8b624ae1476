"""DescribeUserScramCredentials over the wire, compared with an Apache Kafka without any."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from headrace.testing.wire import Wire


def test_no_user_has_credentials(any_wire: Wire) -> None:
    response = any_wire.request(DescribeUserScramCredentialsRequest(users=None))
    assert (response.error_code, response.results) == (0, ())
    requested = DescribeUserScramCredentialsRequest(users=(UserName(name="ann"),))
    (result,) = any_wire.request(requested).results
    assert (result.user, result.error_code) == ("ann", ErrorCode.RESOURCE_NOT_FOUND)
