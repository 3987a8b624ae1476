"""What can go wrong between a batch and the disk, each with what to do next.

The errors about the bytes of one batch (`CorruptBatch`, `TruncatedBatch`) live with the batch format in `records`.
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class LogError(HeadraceError):
    """Root of everything a partition log raises on purpose."""


class BatchTooLarge(LogError):
    """The batch exceeds `max.message.bytes` of its topic."""


class InvalidRecord(LogError):
    """The batch is whole but breaks a rule of its topic or of the format."""


class RecordsWithoutKey(InvalidRecord):
    """Records of the batch have no key, on a topic that keeps the last value of every key."""

    def __init__(self, *, count: int, indexes: tuple[int, ...]) -> None:
        super().__init__(
            f"{count} of the batch's records have no key, and this topic keeps the last value of every key",
            hint="give every record a key, or take `compact` out of the topic's cleanup.policy",
        )
        self.indexes = indexes
        """Where the first of them stand in the batch."""


class InvalidTimestamp(LogError):
    """A timestamp lies further from now than the topic allows, or claims to be the broker's own."""


class OutOfOrderSequence(LogError):
    """An idempotent producer skipped a sequence number: something before this batch is missing."""


class DuplicateSequence(LogError):
    """The batch was appended already, so long ago that its offsets are no longer remembered."""


class InvalidProducerEpoch(LogError):
    """A newer instance of this producer has taken over."""


class InvalidTransactionState(LogError):
    """A batch that does not fit to the transaction that its producer has open here."""


class OffsetOutOfRange(LogError):
    """The offset asked for lies outside of what the log holds."""

    def __init__(self, *, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is outside of the log, which holds {start_offset} up to {end_offset}",
            hint="read from the start or the end of the log; older records were removed by retention",
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class StorageFailed(LogError):
    """The operating system refused a write; the log is as it was before and may be tried again."""


class LogReadOnly(LogError):
    """The log takes no more appends until a person has looked at it; reading goes on."""


class CorruptSegment(LogError):
    """Bytes of a segment are damaged where a read needed them."""

    def __init__(self, *, path: str, position: int, reason: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: {reason}",
            hint="stop the broker and run `headrace log repair` on its folder; it keeps every batch that is whole",
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
    """A checkpoint, snapshot, list or manifest that is not as it was written; the message has the reason."""


class WouldBlock(Exception):
    """The bytes are not in the page cache; read again from a thread that may wait for the disk."""
