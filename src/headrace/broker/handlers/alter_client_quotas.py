"""AlterClientQuotas: set and remove the limits of entities. All valid changes are written in one step."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.configs.client_quotas import Entity, check_quota, entity, invalid_quota
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import Outcome, failure
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    ResponseEntryData,
)


@handles(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1))
def alter_client_quotas(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    quotas = call.parts.client_quotas
    changes: dict[Entity, Mapping[str, float]] = {}
    outcomes: list[Outcome] = []
    for entry in request.entries:
        try:
            which = entity((part.entity_type, part.entity_name) for part in entry.entity)
            if which in changes:
                raise invalid_quota("the entity is in the request more than once", hint="merge its entries")
            changes[which] = _changed(which, quotas.of(which), entry.ops)
            outcomes.append(Outcome())
        except HeadraceError as error:
            outcomes.append(failure(error))
    if changes and not request.validate_only:
        try:
            quotas.replace(changes)
        except (HeadraceError, OSError) as error:
            failed = failure(error)
            outcomes = [one if one.code else failed for one in outcomes]
    return AlterClientQuotasResponse(
        entries=tuple(
            ResponseEntryData(error_code=outcome.code, error_message=outcome.message, entity=entry.entity)
            for entry, outcome in zip(request.entries, outcomes, strict=True)
        )
    )


def _changed(which: Entity, current: Mapping[str, float], ops: tuple[OpData, ...]) -> Mapping[str, float]:
    limits = dict(current)
    if len({op.key for op in ops}) < len(ops):
        raise invalid_quota("a quota is in the request more than once", hint="name each quota once")
    for op in ops:
        if op.remove:
            limits.pop(op.key, None)
        else:
            check_quota(which, op.key, op.value)
            limits[op.key] = op.value
    return limits
