"""A transactional id as a value, its states, and the table of transitions between them.

Nothing here waits, writes or reads a clock: `rules` turns (transaction, request, now) into an outcome with these
values, and `coordinator` performs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.groups.offsets import TopicPartition
from headrace.records.batch import NO_PRODUCER_ID

NO_EPOCH = -1
# Epochs are 16 bits. No producer gets the last one: it fences the producer with the one before.
EPOCH_MAX = 2**15 - 1
EPOCH_HANDED_OUT_MAX = EPOCH_MAX - 1


class TransactionState(IntEnum):
    """The number is the one that is stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def is_prepared(self) -> bool:
        """Decided, and not all partitions have their marker."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )

    @property
    def is_commit(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def display_name(self) -> str:
        """The name that clients get."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Trigger(Enum):
    """What changes the state of a transaction; the value is its text in the picture in the docs and in the log."""

    INITIALIZED = "an instance of the producer starts"
    PARTITION_ADDED = "a partition or a group is added"
    COMMITTED = "the producer commits"
    ABORTED = "the producer aborts"
    FENCED = "a newer instance starts, or the timeout expires"
    MARKED = "every partition has its marker"
    EXPIRED = "not used for long"


_S, _T = TransactionState, Trigger

TRANSITIONS: Mapping[tuple[TransactionState, Trigger], TransactionState] = MappingProxyType(
    {
        (_S.EMPTY, _T.INITIALIZED): _S.EMPTY,
        (_S.EMPTY, _T.PARTITION_ADDED): _S.ONGOING,
        (_S.EMPTY, _T.ABORTED): _S.PREPARE_ABORT,
        (_S.EMPTY, _T.EXPIRED): _S.DEAD,
        (_S.ONGOING, _T.PARTITION_ADDED): _S.ONGOING,
        (_S.ONGOING, _T.COMMITTED): _S.PREPARE_COMMIT,
        (_S.ONGOING, _T.ABORTED): _S.PREPARE_ABORT,
        (_S.ONGOING, _T.FENCED): _S.PREPARE_ABORT,
        (_S.PREPARE_COMMIT, _T.MARKED): _S.COMPLETE_COMMIT,
        (_S.PREPARE_ABORT, _T.MARKED): _S.COMPLETE_ABORT,
        (_S.COMPLETE_COMMIT, _T.INITIALIZED): _S.EMPTY,
        (_S.COMPLETE_COMMIT, _T.PARTITION_ADDED): _S.ONGOING,
        (_S.COMPLETE_COMMIT, _T.ABORTED): _S.PREPARE_ABORT,
        (_S.COMPLETE_COMMIT, _T.EXPIRED): _S.DEAD,
        (_S.COMPLETE_ABORT, _T.INITIALIZED): _S.EMPTY,
        (_S.COMPLETE_ABORT, _T.PARTITION_ADDED): _S.ONGOING,
        (_S.COMPLETE_ABORT, _T.ABORTED): _S.PREPARE_ABORT,
        (_S.COMPLETE_ABORT, _T.EXPIRED): _S.DEAD,
    }
)


class ClientVersion(IntEnum):
    """The protocol of a client. With `EPOCH_BUMPS` (KIP-890) every transaction has an epoch of its own."""

    CLASSIC = 0
    EPOCH_BUMPS = 2


class Producer(Struct, frozen=True, kw_only=True):
    """A producer id, and the epoch of its instance or transaction."""

    id: int
    epoch: int


class Transaction(Struct, frozen=True, kw_only=True):
    """A transactional id and the state of its last transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_epoch: int = NO_EPOCH
    """The epoch that was bumped last: a producer that still has it did not get the response."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this one, which has no epochs left."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id from the end of this transaction on."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    started_ms: int = -1
    client_version: ClientVersion = ClientVersion.CLASSIC

    @property
    def producer(self) -> Producer:
        return Producer(id=self.producer_id, epoch=self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left for another instance."""
        return self.producer_epoch >= EPOCH_HANDED_OUT_MAX

    def moved(self, trigger: Trigger, now_ms: int, **changes: object) -> Transaction:
        """The transaction after a transition of the table; the caller has checked that there is one."""
        return replace(self, state=TRANSITIONS[self.state, trigger], updated_ms=now_ms, **changes)
