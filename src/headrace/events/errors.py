"""The errors of event sourcing that callers distinguish."""

from __future__ import annotations

from headrace.errors import HeadraceError


class EventsError(HeadraceError):
    """Any of the below, and what no caller distinguishes: settings that do not fit, a topic with other records."""


class VersionConflict(EventsError):
    """The aggregate is not at the expected version. `version` is the one that it is at; nothing was written."""

    def __init__(self, message: str, *, hint: str = "", version: int) -> None:
        super().__init__(message, hint=hint)
        self.version = version


class CommandRejected(EventsError):
    """`decide` rejects the command. The command is kept in the topic of rejected commands, with the message."""


class InvalidEvent(EventsError):
    """An event or a command that cannot be stored: its aggregate id, its type, its size. Nothing was written."""


class UnknownEventType(EventsError):
    """The log has an event of a type that the aggregate does not declare."""


class WriterFenced(EventsError):
    """Another process has opened the partition. Nothing was written."""


class OutcomeUnknown(EventsError):
    """The broker became unavailable during a commit, so that the events are written or not.

    A retry with the same expected version, or with the same command id, finds out and writes nothing twice.
    """


class StoreUnavailable(EventsError):
    """The broker is unavailable or rejects the requests. Nothing was written."""


class NoReply(EventsError):
    """A command was sent, and no worker has replied in time. Sending it again with the same id is safe."""
