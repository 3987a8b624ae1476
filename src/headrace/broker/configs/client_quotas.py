"""Quotas of users, client ids and addresses: which are valid, which are set, and which one applies to a client.

A limit belongs to an entity: a user, a client id, both, or an address, where no name stands for all that have none of
their own. Kafka's order decides between several. Without authentication every user is ANONYMOUS.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
from collections.abc import Iterable, Mapping

from msgspec import Struct

from headrace.broker.configs.definitions import INT32_MAX, INT64_MAX
from headrace.broker.configs.resource_configs import read_saved
from headrace.broker.rejections import RequestRejected
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ANONYMOUS = "ANONYMOUS"
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"

Entity = tuple[tuple[str, str | None], ...]
"""Types with names, in the order of the types; None is the default of the type."""


def invalid_quota(message: str, *, hint: str = "") -> RequestRejected:
    return RequestRejected(ErrorCode.INVALID_REQUEST, message, hint=hint)


# The largest limits. A quota without one need not be a whole number.
_OF_CLIENTS: Mapping[str, float] = {
    PRODUCER_BYTE_RATE: INT64_MAX,
    CONSUMER_BYTE_RATE: INT64_MAX,
    "request_percentage": math.inf,
    "controller_mutation_rate": math.inf,
}
_OF_ADDRESSES: Mapping[str, float] = {"connection_creation_rate": INT32_MAX}


def entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of these types and names."""
    named = dict(parts)
    if not named:
        raise invalid_quota("a quota has no entity", hint="name a user, a client id or an address")
    for kind, name in named.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise invalid_quota(f"{kind!r} has no quotas", hint=f"choose {USER}, {CLIENT_ID} or {IP}")
        if name == "":
            raise invalid_quota(
                f"the name of a {kind} is empty", hint="give it a name, or none for the default"
            )
    if IP in named:
        if len(named) > 1:
            raise invalid_quota(
                "an address can't be combined with other types", hint=f"remove {USER} and {CLIENT_ID}"
            )
        _check_address(named[IP])
    return tuple(sorted(named.items()))


def _check_address(name: str | None) -> None:
    """Kafka accepts a host name too. A look-up would take time, and the address may change."""
    if name is not None:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise invalid_quota(f"{name!r} is no IP address", hint="write one, such as 192.0.2.1") from None


def check_quota(of: Entity, key: str, limit: float) -> None:
    kinds = _OF_ADDRESSES if of[0][0] == IP else _OF_CLIENTS
    if key not in kinds:
        raise invalid_quota(f"such an entity has no quota {key}", hint=f"it may have {', '.join(kinds)}")
    if not limit > 0:
        raise invalid_quota(f"{key}={limit} is not greater than 0", hint="remove the quota instead")
    most = kinds[key]
    if most != math.inf and (limit > most or limit != int(limit)):
        raise invalid_quota(f"{key}={limit} is not a whole number up to {most}")


def applicable(client_id: str, user: str = ANONYMOUS) -> list[tuple[Entity, Entity]]:
    """The entities that limit a client, in the order of precedence, each with the entity that shares the limit."""
    shared_by_both: Entity = ((CLIENT_ID, client_id), (USER, user))
    shared_by_user: Entity = ((USER, user),)
    shared_by_client: Entity = ((CLIENT_ID, client_id),)
    found: list[tuple[Entity, Entity]] = []
    for name in (user, None):
        found.append((((CLIENT_ID, client_id), (USER, name)), shared_by_both))
        found.append((((CLIENT_ID, None), (USER, name)), shared_by_both))
        found.append((((USER, name),), shared_by_user))
    found.append((shared_by_client, shared_by_client))
    found.append((((CLIENT_ID, None),), shared_by_client))
    return found


class _Saved(Struct, frozen=True, kw_only=True):
    entity: dict[str, str | None]
    quotas: dict[str, float]


class ClientQuotas:
    def __init__(self, files: FileSystem, data_dir: str, *, entities_max: int) -> None:
        self._files = files
        self._entities_max = entities_max
        self._path = os.path.join(data_dir, "metadata", "client-quotas.json")
        saved = read_saved(
            files,
            self._path,
            list[_Saved],
            hint="restore it from a copy, or remove it: no client has quotas then",
        )
        self._by_entity: dict[Entity, dict[str, float]] = {
            tuple(sorted(one.entity.items())): one.quotas for one in saved
        }

    def __len__(self) -> int:
        return len(self._by_entity)

    def items(self) -> Iterable[tuple[Entity, Mapping[str, float]]]:
        return self._by_entity.items()

    def of(self, which: Entity) -> Mapping[str, float]:
        return self._by_entity.get(which, {})

    def limit(self, key: str, client_id: str) -> tuple[float, Entity] | None:
        """The quota of a client, and the entity that shares it; None if it has none."""
        for which, shared_by in applicable(client_id):
            limit = self.of(which).get(key)
            if limit is not None:
                return limit, shared_by
        return None

    def replace(self, changes: Mapping[Entity, Mapping[str, float]]) -> None:
        """Replace the quotas of entities, in one write."""
        changed = {**self._by_entity, **{which: dict(limits) for which, limits in changes.items()}}
        changed = {which: limits for which, limits in changed.items() if limits}
        if len(changed) > max(self._entities_max, len(self._by_entity)):
            raise RequestRejected(
                ErrorCode.POLICY_VIOLATION,
                f"{len(changed)} entities would have quotas",
                hint="remove quotas that are not needed, or raise client_quotas_max",
            )
        saved = [{"entity": dict(which), "quotas": limits} for which, limits in changed.items()]
        self._files.write_whole(self._path, json.dumps(saved, indent=1).encode())
        self._by_entity = changed
