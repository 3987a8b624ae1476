"""Seats of a concert as event-sourced aggregates: decide, evolve, conflicts, and the state at any past version.

python examples/event_sourcing.py

Two box offices, each with a store of its own, sell the same seats. Every seat is sold once.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from headrace import Broker
from headrace.events import Aggregate, CommandRejected, EventStore

SEATS = [f"row-{row}-seat-{seat}" for row in (1, 2) for seat in range(1, 6)]


class Reserve(Struct, frozen=True, kw_only=True):
    buyer: str


class Cancel(Struct, frozen=True, kw_only=True):
    buyer: str


class Reserved(Struct, frozen=True, kw_only=True):
    buyer: str


class Cancelled(Struct, frozen=True, kw_only=True):
    buyer: str


class Seat(Struct, frozen=True, kw_only=True):
    """The state: who has the seat."""

    buyer: str | None = None


class Seats(Aggregate[Seat, Reserve | Cancel, Reserved | Cancelled]):
    initial = Seat()
    commands = Reserve | Cancel
    events = Reserved | Cancelled

    def decide(self, state: Seat, command: Reserve | Cancel) -> Sequence[Reserved | Cancelled]:
        if isinstance(command, Reserve):
            if state.buyer is not None:
                raise CommandRejected(f"the seat is reserved for {state.buyer}")
            return [Reserved(buyer=command.buyer)]
        if state.buyer != command.buyer:
            raise CommandRejected(f"{command.buyer} has no reservation")
        return [Cancelled(buyer=command.buyer)]

    def evolve(self, state: Seat, event: Reserved | Cancelled) -> Seat:
        return Seat(buyer=event.buyer if isinstance(event, Reserved) else None)


def sell_all(bootstrap: str, office: str) -> int:
    """Reserve every seat that is free; the number of them."""
    sold = 0
    with EventStore("seats", Seats(), bootstrap=bootstrap) as store:
        for seat in SEATS:
            try:
                store.handle(seat, Reserve(buyer=office))
                sold += 1
            except CommandRejected:
                pass
    return sold


def main() -> None:
    with Broker() as broker, EventStore("seats", Seats(), bootstrap=broker.bootstrap, partitions=2) as store:
        with ThreadPoolExecutor() as offices:
            sold = list(offices.map(lambda name: sell_all(broker.bootstrap, name), ("north", "south")))
        rejected = sum(len(store.rejected(seat)) for seat in SEATS)
        print(f"{len(SEATS)} seats: {sum(sold)} sold, {rejected} commands rejected and kept")

        seat = SEATS[0]
        owner = store.load(seat).state.buyer or ""
        store.handle(seat, Cancel(buyer=owner))
        store.handle(seat, Reserve(buyer="ada"))
        print(
            f"{seat} is at version {store.load(seat).version}, and belongs to {store.load(seat).state.buyer}"
        )
        print(f"events: {[each.type for each in store.events(seat)]}")
        print(f"at version 2 it was free: {store.state_at(seat, version=2).state.buyer is None}")


if __name__ == "__main__":
    main()
