"""ApiVersions: the APIs and versions of this broker, which are those of the registered handlers."""

from __future__ import annotations

import logging

from headrace.broker.dispatch import HANDLERS, Call, handles
from headrace.broker.features import FEATURES
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

logger = logging.getLogger(__name__)

LOWEST_LEVEL_MAY_BE_0_SINCE = 4


@handles(ApiKey.API_VERSIONS, versions=(0, 4))
def api_versions(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if request.client_software_name:
        call.client.software_name = request.client_software_name
        call.client.software_version = request.client_software_version
    is_new = call.parts.traffic.is_new_software(call.client)
    logger.log(
        logging.INFO if is_new else logging.DEBUG,
        "client connected",
        extra={
            "client": call.client.address,
            "client_id": call.client_id,
            "software": f"{call.client.software_name} {call.client.software_version}",
        },
    )
    return ApiVersionsResponse(
        api_keys=_served(),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=feature.lowest, max_version=feature.level)
            for name, feature in FEATURES.items()
            # Older clients reject a lowest level of 0.
            if feature.lowest > 0 or call.version >= LOWEST_LEVEL_MAY_BE_0_SINCE
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=feature.level, min_version_level=feature.level)
            for name, feature in FEATURES.items()
        ),
    )


def unsupported_version() -> ApiVersionsResponse:
    """The response to a version that is too new: the list, in the oldest version, so that the client can retry."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served())


def _served() -> tuple[ApiVersion, ...]:
    return tuple(
        ApiVersion(api_key=key, min_version=handler.advertised[0], max_version=handler.advertised[1])
        for key, handler in sorted(HANDLERS.items())
    )
