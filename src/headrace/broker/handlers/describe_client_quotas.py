"""DescribeClientQuotas: the limits of the entities that a filter matches.

A component of the filter matches a name, the default, or any entity of its type. A strict filter matches only
entities without further types.
"""

from __future__ import annotations

from headrace.broker.configs.client_quotas import CLIENT_ID, IP, USER, Entity
from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1))
def describe_client_quotas(request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    _check(request.components)
    return DescribeClientQuotasResponse(
        entries=tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in which),
                values=tuple(ValueData(key=key, value=limit) for key, limit in limits.items()),
            )
            for which, limits in call.parts.client_quotas.items()
            if _matches(which, request)
        )
    )


def _check(components: tuple[ComponentData, ...]) -> None:
    kinds = [component.entity_type for component in components]
    for component in components:
        kind = component.entity_type
        if not kind:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, "a component of the filter has no type")
        if kind not in (USER, CLIENT_ID, IP):
            raise RequestRejected(ErrorCode.UNSUPPORTED_VERSION, f"{kind!r} has no quotas")
        if kinds.count(kind) > 1:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, f"{kind} is in the filter more than once")
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise RequestRejected(ErrorCode.INVALID_REQUEST, f"match type {component.match_type} is unknown")
        if (component.match_type == EXACT) != (component.match is not None):
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST, "an exact match needs a name, and no other match may have one"
            )
    if IP in kinds and len(kinds) > 1:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "an address can't be combined with other types")


def _matches(which: Entity, request: DescribeClientQuotasRequest) -> bool:
    named = dict(which)
    if request.strict and len(named) != len(request.components):
        return False
    return all(
        component.entity_type in named
        and (component.match_type == ANY or named[component.entity_type] == component.match)
        for component in request.components
    )
