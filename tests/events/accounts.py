"""An aggregate for the tests: a bank account that can't be overdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from headrace.events import Aggregate, CommandRejected, EventStore


class Deposit(Struct, frozen=True, kw_only=True):
    amount: int


class Withdraw(Struct, frozen=True, kw_only=True):
    amount: int


class Break(Struct, frozen=True, kw_only=True):
    """`decide` fails with it, as with a bug."""


class Deposited(Struct, frozen=True, kw_only=True, tag="deposited"):
    amount: int
    note: str = ""


class Withdrawn(Struct, frozen=True, kw_only=True, tag="withdrawn"):
    amount: int


class Balance(Struct, frozen=True, kw_only=True):
    amount: int = 0
    changes: int = 0


Command: TypeAlias = Deposit | Withdraw | Break
Event: TypeAlias = Deposited | Withdrawn


class Account(Aggregate[Balance, Command, Event]):
    initial = Balance()
    commands = Command
    events = Event

    def decide(self, state: Balance, command: Command) -> Sequence[Event]:
        if isinstance(command, Deposit):
            return [Deposited(amount=command.amount)] if command.amount else []
        if isinstance(command, Break):
            raise ZeroDivisionError("a bug")
        if command.amount > state.amount:
            raise CommandRejected(f"the balance is {state.amount}")
        return [Withdrawn(amount=command.amount)]

    def evolve(self, state: Balance, event: Event) -> Balance:
        change = event.amount if isinstance(event, Deposited) else -event.amount
        return Balance(amount=state.amount + change, changes=state.changes + 1)


AccountStore: TypeAlias = EventStore[Balance, Command, Event]
