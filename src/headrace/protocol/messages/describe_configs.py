"""DescribeConfigs: settings of topics, brokers and groups, and where each value comes from.

3: the type of each setting, and its documentation, if requested.
4: flexible.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message, since


class DescribeConfigsResource(Struct, frozen=True, kw_only=True):
    resource_type: Int8
    resource_name: String
    configuration_keys: tuple[String, ...] | None = None


@message(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest(Struct, frozen=True, kw_only=True):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, since(3)] = False


class DescribeConfigsSynonym(Struct, frozen=True, kw_only=True):
    name: String
    value: NullableString = None
    source: Int8


class DescribeConfigsResourceResult(Struct, frozen=True, kw_only=True):
    name: String
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[NullableString, since(3)] = None


class DescribeConfigsResult(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8
    resource_name: String
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@message(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...]
