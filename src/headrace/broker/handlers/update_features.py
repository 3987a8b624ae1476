"""UpdateFeatures: every feature already has its only level. Another level is rejected, and then none changes."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.features import SAFE_DOWNGRADE, UPGRADE, problem_of_update
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPES_SINCE = 1


@handles(ApiKey.UPDATE_FEATURES, versions=(0, 2))
def update_features(request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    for update in request.feature_updates:
        upgrade_type = update.upgrade_type
        if call.version < UPGRADE_TYPES_SINCE:
            upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
        problem = problem_of_update(update.feature, update.max_version_level, upgrade_type)
        if problem is not None:
            raise RequestRejected(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"level {update.max_version_level} of {update.feature}: {problem}",
            )
    return UpdateFeaturesResponse(
        results=tuple(
            UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE)
            for update in request.feature_updates
        )
    )
