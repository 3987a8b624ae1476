"""DescribeUserScramCredentials: which users can log in by SCRAM, and how."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, NullableString, String, message


class UserName(Struct, frozen=True, kw_only=True):
    name: String


@message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsRequest(Struct, frozen=True, kw_only=True):
    users: tuple[UserName, ...] | None


class CredentialInfo(Struct, frozen=True, kw_only=True):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct, frozen=True, kw_only=True):
    user: String
    error_code: Int16
    error_message: NullableString = None
    credential_infos: tuple[CredentialInfo, ...] = ()


@message(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible_since=0)
class DescribeUserScramCredentialsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
