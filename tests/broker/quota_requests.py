"""Requests about client quotas, as short as a test wants to say them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, RequestEntryData
from headrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from headrace.testing.wire import Wire

EXACT, DEFAULT, ANY = 0, 1, 2
Parts = Mapping[str, str | None]


def entry(parts: Iterable[tuple[str, str | None]], **limits: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(OpData(key=key, value=limit or 0, remove=limit is None) for key, limit in limits.items()),
    )


def alter(wire: Wire, parts: Parts, version: int = 1, /, **limits: float | None) -> int:
    """Set limits, or with None remove them; the error code."""
    request = AlterClientQuotasRequest(entries=(entry(parts.items(), **limits),))
    (response,) = wire.request(request, version=version).entries
    code: int = response.error_code
    return code


def describe(
    wire: Wire, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    requested = tuple(
        ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
    )
    return wire.request(DescribeClientQuotasRequest(components=requested, strict=strict), version=version)


def described(
    wire: Wire, *components: tuple[str, int, str | None], **options: Any
) -> dict[Any, dict[str, float]]:
    response = describe(wire, *components, **options)
    assert response.error_code == 0, response
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in one.entity)): {
            limit.key: limit.value for limit in one.values
        }
        for one in response.entries
    }
