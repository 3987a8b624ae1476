"""What a log raises, as far as a caller distinguishes it; errors in the bytes of a batch are in `records.errors`."""

from __future__ import annotations

from headrace.errors import HeadraceError


class LogError(HeadraceError):
    """Anything that a log raises on purpose."""


class BatchTooLarge(LogError):
    """The batch exceeds `max.message.bytes` of its topic."""


class InvalidRecord(LogError):
    """The batch is whole but breaks a rule of its topic or of the format."""


class RecordsWithoutKey(InvalidRecord):
    """Records of the batch have no key, on a topic that keeps the last value of every key."""

    def __init__(self, *, count: int, indexes: tuple[int, ...]) -> None:
        super().__init__(
            f"{count} of the batch's records have no key, and this topic keeps the last value of every key",
            hint="set a key for every record, or remove `compact` from the topic's cleanup.policy",
        )
        self.indexes = indexes
        """Indexes in the batch of the first of them."""


class InvalidTimestamp(LogError):
    """A timestamp is further from now than the topic allows, or claims to be the broker's own."""


class OutOfOrderSequence(LogError):
    """An idempotent producer skipped a sequence number: something before this batch is missing."""


class DuplicateSequence(LogError):
    """The batch was appended before, too long ago for its offsets to be known."""


class InvalidProducerEpoch(LogError):
    """A newer instance of this producer has fenced this one."""


class InvalidTransactionState(LogError):
    """The batch does not fit the open transaction of its producer."""


class OffsetOutOfRange(LogError):
    """The requested offset is outside of the log."""

    def __init__(self, *, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is outside of the log, which starts at {start_offset} and ends at {end_offset}",
            hint="read from the start or the end of the log; older records were removed by retention",
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class StorageFailed(LogError):
    """The operating system failed a write; the log is unchanged, and the write may be retried."""


class LogReadOnly(LogError):
    """The log rejects writes until it is repaired and opened again; reads continue to work."""


class CorruptSegment(LogError):
    """Bytes of a segment are damaged where a read needed them."""

    def __init__(self, *, path: str, position: int, reason: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: {reason}",
            hint="stop the broker and run `headrace log repair` on its folder; it keeps every valid batch",
        )
        self.path = path
        self.position = position
        self.reason = reason


class ArchiveUnreachable(LogError):
    """The archive failed or cannot be reached; nothing is lost, and the operation is retried."""


class ObjectMissing(LogError):
    """The archive has no such object."""


class CorruptArchive(LogError):
    """An object of the archive is missing or damaged."""

    def __init__(self, *, name: str, address: str, reason: str) -> None:
        super().__init__(
            f"{name} in the archive {address} is damaged: {reason}",
            hint="restore this object from a copy, or delete its records with DeleteRecords",
        )
        self.name = name


class InvalidFile(Exception):
    """A checkpoint, snapshot, list or manifest that does not decode; the message has the reason."""


class WouldBlock(Exception):
    """The bytes are not in the page cache; read them in a thread that may wait for the disk."""
