"""DescribeUserScramCredentials: no user has credentials, because the broker has no SASL. `kafka-configs` needs it."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0))
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        results=tuple(
            DescribeUserScramCredentialsResult(
                user=user.name,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message=f"user {user.name!r} has no SCRAM credentials",
            )
            for user in request.users or ()
        )
    )
