"""Event sourcing: aggregates whose state is the fold of their events, in a topic.

    from headrace.events import Aggregate, EventStore

    with EventStore("accounts", Account()) as store:
        store.handle("ada", Deposit(amount=10))
        print(store.load("ada").state)

`EventStore` appends with an expected version. `CommandSender` and `CommandWorker` route commands through a topic to the
process that owns an aggregate. `UniqueNames` makes names unique across aggregates. All of it uses the broker over the
wire, Headrace's or Apache Kafka. `headrace.events.eventsourcing_recorders` is a persistence module for the PyPI library
`eventsourcing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.exports import lazy_exports

if TYPE_CHECKING:
    from headrace.events.aggregate import Aggregate, Loaded, fold
    from headrace.events.commands import Reply
    from headrace.events.errors import (
        CommandRejected,
        EventsError,
        InvalidEvent,
        NoReply,
        OutcomeUnknown,
        StoreUnavailable,
        UnknownEventType,
        VersionConflict,
        WriterFenced,
    )
    from headrace.events.records import Rejection
    from headrace.events.sender import CommandSender
    from headrace.events.store import EventStore, HandledCommand, RecordedEvent
    from headrace.events.uniqueness import Claim, Claimed, Owner, Release, Released, UniqueNames
    from headrace.events.worker import CommandWorker
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "aggregate": ("Aggregate", "Loaded", "fold"),
            "commands": ("Reply",),
            "errors": (
                "CommandRejected",
                "EventsError",
                "InvalidEvent",
                "NoReply",
                "OutcomeUnknown",
                "StoreUnavailable",
                "UnknownEventType",
                "VersionConflict",
                "WriterFenced",
            ),
            "records": ("Rejection",),
            "sender": ("CommandSender",),
            "store": ("EventStore", "HandledCommand", "RecordedEvent"),
            "uniqueness": ("Claim", "Claimed", "Owner", "Release", "Released", "UniqueNames"),
            "worker": ("CommandWorker",),
        },
    )

__all__ = [
    "Aggregate",
    "Claim",
    "Claimed",
    "CommandRejected",
    "CommandSender",
    "CommandWorker",
    "EventStore",
    "EventsError",
    "HandledCommand",
    "InvalidEvent",
    "Loaded",
    "NoReply",
    "OutcomeUnknown",
    "Owner",
    "RecordedEvent",
    "Rejection",
    "Release",
    "Released",
    "Reply",
    "StoreUnavailable",
    "UniqueNames",
    "UnknownEventType",
    "VersionConflict",
    "WriterFenced",
    "fold",
]
