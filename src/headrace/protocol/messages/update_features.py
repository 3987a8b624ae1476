"""UpdateFeatures: raise or lower the levels of the cluster's features.

1: kinds of downgrade, and validation only. 2: one error for all features together.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message, since, until


class FeatureUpdateKey(Struct, frozen=True, kw_only=True):
    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_since=0)
class UpdateFeaturesRequest(Struct, frozen=True, kw_only=True):
    timeout_ms: Int32 = 60_000
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: Annotated[Bool, since(1)] = False


class UpdatableFeatureResult(Struct, frozen=True, kw_only=True):
    feature: String
    error_code: Int16
    error_message: NullableString = None


@message(ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_since=0)
class UpdateFeaturesResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    results: Annotated[tuple[UpdatableFeatureResult, ...], until(1)] = ()
