"""ApiVersions: the first question on every connection: which APIs the broker has, in which versions.

1: throttle time.
3: flexible (but never its response header); the client's name and version; the broker's features in tags.
4: a supported feature's lowest version may be 0.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, Int64, String, message, since, tagged


@message(ApiKey.API_VERSIONS, versions=(0, 4), flexible_since=3)
class ApiVersionsRequest(Struct, frozen=True, kw_only=True):
    client_software_name: Annotated[String, since(3)] = ""
    client_software_version: Annotated[String, since(3)] = ""


class ApiVersion(Struct, frozen=True, kw_only=True):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct, frozen=True, kw_only=True):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct, frozen=True, kw_only=True):
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(ApiKey.API_VERSIONS, versions=(0, 4), flexible_since=3)
class ApiVersionsResponse(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], since(3), tagged(0)] = ()
    finalized_features_epoch: Annotated[Int64, since(3), tagged(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], since(3), tagged(2)] = ()
    zk_migration_ready: Annotated[Bool, since(3), tagged(3)] = False
