"""Names that only one owner may have, such as user names: sequential validation through a partition.

An aggregate cannot check the state of another one. So the name itself is the aggregate: whoever wants it claims it by a
command that is keyed by the name, and proceeds when the claim is accepted. All claims of a name are in one partition,
one after the other, so one of them is the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headrace.events.aggregate import Aggregate
from headrace.events.errors import CommandRejected


class Claim(Struct, frozen=True, kw_only=True):
    """Take the name for an owner. A repeated claim of the same owner is accepted."""

    owner: str


class Release(Struct, frozen=True, kw_only=True):
    """Give the name up: only its owner may."""

    owner: str


class Claimed(Struct, frozen=True, kw_only=True):
    owner: str


class Released(Struct, frozen=True, kw_only=True):
    owner: str


class Owner(Struct, frozen=True, kw_only=True):
    """Who has a name; None: nobody."""

    owner: str | None = None


class UniqueNames(Aggregate[Owner, Claim | Release, Claimed | Released]):
    """The name is the aggregate id: `EventStore("user-names", UniqueNames()).handle("ada", Claim(owner="user-1"))`."""

    initial = Owner()
    commands = Claim | Release
    events = Claimed | Released

    def decide(self, state: Owner, command: Claim | Release) -> Sequence[Claimed | Released]:
        if isinstance(command, Claim):
            if state.owner is None:
                return [Claimed(owner=command.owner)]
            if state.owner == command.owner:
                return []
            raise CommandRejected("the name is taken", hint="choose another one")
        if state.owner != command.owner:
            raise CommandRejected("the name belongs to another owner")
        return [Released(owner=command.owner)]

    def evolve(self, state: Owner, event: Claimed | Released) -> Owner:
        return Owner(owner=event.owner if isinstance(event, Claimed) else None)
