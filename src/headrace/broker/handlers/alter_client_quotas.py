"""AlterClientQuotas: set and remove the limits of entities. All valid changes are written in one step."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.client_quotas import Entity, InvalidQuota, check_quota, entity
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntryData,
    ResponseEntryData,
)


@handles(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1))
def alter_client_quotas(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    quotas = call.parts.client_quotas
    changes: dict[Entity, Mapping[str, float]] = {}
    problems: list[HeadraceError | OSError | None] = []
    for entry in request.entries:
        try:
            which = entity((part.entity_type, part.entity_name) for part in entry.entity)
            if which in changes:
                raise InvalidQuota("the entity is in the request more than once", hint="merge its entries")
            changes[which] = _changed(which, quotas.of(which), entry.ops)
            problems.append(None)
        except HeadraceError as error:
            problems.append(error)
    if changes and not request.validate_only:
        try:
            quotas.replace([*changes.items()])
        except (HeadraceError, OSError) as error:
            problems = [problem or error for problem in problems]
    return AlterClientQuotasResponse(entries=tuple(map(_entry, request.entries, problems)))


def _changed(which: Entity, current: Mapping[str, float], ops: tuple[OpData, ...]) -> Mapping[str, float]:
    limits = dict(current)
    if len({op.key for op in ops}) < len(ops):
        raise InvalidQuota("a quota is in the request more than once", hint="name each quota once")
    for op in ops:
        if op.remove:
            limits.pop(op.key, None)
        else:
            check_quota(which, op.key, op.value)
            limits[op.key] = op.value
    return limits


def _entry(entry: RequestEntryData, problem: HeadraceError | OSError | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=ErrorCode.NONE if problem is None else error_code(problem),
        error_message=None if problem is None else str(problem),
        entity=entry.entity,
    )
