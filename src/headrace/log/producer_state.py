"""The state of the producers of a partition: their last batches, so that a retry is stored once, and open
transactions.

A batch with the sequence numbers of a stored one is a retry, with one exception. If the response of a produce request
is lost and the client then aborts, librdkafka 2.16 uses the same numbers in the next transaction. Such a batch has
another checksum or size than the stored one, and the stored one was aborted: it is new.

State only: no I/O, and time is passed in. The snapshot is Kafka's version 1 (the last batch of every producer),
followed by a section of our own with all batches that are kept; Kafka's readers stop before it.
"""

from __future__ import annotations

import struct
from collections import deque

import google_crc32c
from msgspec import Struct
from msgspec.structs import replace

from headrace.log.errors import DuplicateSequence, InvalidFile, InvalidProducerEpoch, OutOfOrderSequence

# Clients keep at most five requests in flight: a retry can be of the fifth last batch but of no older one.
BATCHES_KEPT = 5
SEQUENCE_LIMIT = 2**31
NO_TRANSACTION = -1
ANY_SEQUENCE = -1
NO_CHECKSUM = -1

_SNAPSHOT_VERSION = 1
SNAPSHOT_HEAD = struct.Struct(">hI")
SNAPSHOT_COUNT = struct.Struct(">i")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_BATCHES_MAGIC = b"HRSB"
_BATCH = struct.Struct(">qiiqqb")


class SequencedBatch(Struct, frozen=True):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    checksum: int = NO_CHECKSUM
    """Of the batch as it was received; a retry has the same."""
    is_aborted: bool = False


class ProducerState:
    """The epoch of one producer, its last batches (newest last) and when it last wrote."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "next_sequence", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        self.coordinator_epoch = -1
        """Of the coordinator that ended its last transaction."""
        self.batches: deque[SequencedBatch] = deque(maxlen=BATCHES_KEPT)
        self.next_sequence = ANY_SEQUENCE

    def add(self, batch: SequencedBatch) -> None:
        if batch.first_sequence != self.next_sequence:
            self.rewind(batch.first_sequence)
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) % SEQUENCE_LIMIT

    def rewind(self, sequence: int) -> None:
        """Continue from this sequence: the batches from there on are aborted, and their numbers are used again."""
        while self.batches and _is_from(self.batches[-1].first_sequence, sequence):
            self.batches.pop()
        self.next_sequence = sequence

    def abort_from(self, first_offset: int) -> None:
        """The transaction that started at this offset was aborted."""
        for index, batch in enumerate(self.batches):
            if batch.base_offset >= first_offset:
                self.batches[index] = replace(batch, is_aborted=True)


class ProducerStates:
    """All producers of one partition, at most `producer_ids_max` of them."""

    __slots__ = ("by_id", "open_transactions", "producer_ids_max")

    def __init__(self, *, producer_ids_max: int) -> None:
        self.producer_ids_max = producer_ids_max
        self.by_id: dict[int, ProducerState] = {}
        # In the order of the offsets, because every transaction starts at the end of the log.
        self.open_transactions: dict[int, int] = {}
        """Producer -> first offset of the transaction that it has open here."""

    def clear(self) -> None:
        self.by_id.clear()
        self.open_transactions.clear()

    # Transactions

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest open transaction."""
        return next(iter(self.open_transactions.values()), None)

    def begin_transaction(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch was appended; only the first of a transaction matters."""
        self.open_transactions.setdefault(producer_id, first_offset)

    def check_marker(self, producer_id: int, producer_epoch: int) -> None:
        state = self.by_id.get(producer_id)
        if state is not None and producer_epoch < state.epoch:
            raise _old_epoch(producer_id, producer_epoch, state.epoch)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, now_ms: int, *, is_commit: bool
    ) -> int | None:
        """A marker was appended; the first offset of the transaction that it ended, if one was open."""
        state = self._state_of(producer_id, producer_epoch, now_ms)
        state.coordinator_epoch = coordinator_epoch
        first_offset = self.open_transactions.pop(producer_id, None)
        if first_offset is not None and not is_commit:
            state.abort_from(first_offset)
        return first_offset

    # Sequences

    def last_offsets(self) -> dict[int, int]:
        """Of every producer the last offset that it wrote."""
        return {
            producer_id: state.batches[-1].last_offset
            for producer_id, state in self.by_id.items()
            if state.batches
        }

    def check(
        self, producer_id: int, producer_epoch: int, first_sequence: int, last_sequence: int, checksum: int
    ) -> SequencedBatch | None:
        """None if the batch is the next one; the stored batch if it is a retry; otherwise it raises.

        A producer that is unknown (expired, or new here) may start with any sequence: nothing before it can be checked.
        """
        state = self.by_id.get(producer_id)
        if state is None:
            return None
        if producer_epoch != state.epoch:
            _check_new_epoch(state, producer_id, producer_epoch, first_sequence)
            return None
        if first_sequence == state.next_sequence or state.next_sequence == ANY_SEQUENCE:
            return None
        stored = next((batch for batch in state.batches if batch.first_sequence == first_sequence), None)
        if stored is not None:
            is_same_range = stored.last_sequence == last_sequence
            if stored.is_aborted and not (is_same_range and stored.checksum == checksum):
                # Before the append: if that fails, the batches after this one have to wait for it.
                state.rewind(first_sequence)
                return None
            if is_same_range:
                return stored
        raise _rejection(state, producer_id, first_sequence)

    def is_next(self, producer_id: int, producer_epoch: int, first_sequence: int) -> bool:
        """Whether `check` accepts a batch because it is the next one, which is the usual case."""
        state = self.by_id.get(producer_id)
        return state is not None and producer_epoch == state.epoch and first_sequence == state.next_sequence

    def update(
        self,
        producer_id: int,
        producer_epoch: int,
        first_sequence: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        checksum: int,
        now_ms: int,
    ) -> None:
        """Record a batch that has been appended."""
        state = self._state_of(producer_id, producer_epoch, now_ms)
        if first_sequence >= 0:
            state.add(SequencedBatch(first_sequence, last_sequence, base_offset, last_offset, checksum))

    def _state_of(self, producer_id: int, producer_epoch: int, now_ms: int) -> ProducerState:
        """The producer's state, in this epoch."""
        state = self.by_id.get(producer_id)
        if state is None:
            if len(self.by_id) >= self.producer_ids_max:
                self._forget_idle()
            state = self.by_id[producer_id] = ProducerState(producer_epoch, now_ms)
        elif producer_epoch != state.epoch:
            state.epoch = producer_epoch
            state.batches.clear()
            state.next_sequence = ANY_SEQUENCE
        state.seen_ms = now_ms
        return state

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> int:
        """Drop producers that were idle for too long; the number of them."""
        idle = [
            producer_id
            for producer_id, state in self.by_id.items()
            if now_ms - state.seen_ms > producer_id_expiration_ms
            and producer_id not in self.open_transactions
        ]
        for producer_id in idle:
            del self.by_id[producer_id]
        return len(idle)

    def _forget_idle(self) -> None:
        """Drop an eighth of the idle producers at a time, so that many new producers do not sort on every append."""
        closed = self.by_id.keys() - self.open_transactions.keys()
        by_age = sorted(closed, key=lambda producer_id: self.by_id[producer_id].seen_ms)
        for producer_id in by_age[: max(1, len(by_age) // 8)]:
            del self.by_id[producer_id]

    def encode(self) -> bytes:
        entries = [SNAPSHOT_COUNT.pack(len(self.by_id))]
        batches: list[bytes] = []
        for producer_id, state in self.by_id.items():
            last = state.batches[-1] if state.batches else SequencedBatch(-1, -1, -1, -1)
            entries.append(
                SNAPSHOT_ENTRY.pack(
                    producer_id,
                    state.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.base_offset,
                    state.seen_ms,
                    state.coordinator_epoch,
                    self.open_transactions.get(producer_id, NO_TRANSACTION),
                )
            )
            batches.extend(
                _BATCH.pack(
                    producer_id,
                    batch.first_sequence,
                    batch.last_sequence,
                    batch.base_offset,
                    batch.checksum,
                    batch.is_aborted,
                )
                for batch in state.batches
            )
        body = b"".join((*entries, _BATCHES_MAGIC, SNAPSHOT_COUNT.pack(len(batches)), *batches))
        return SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, google_crc32c.value(body)) + body

    def load(self, content: bytes) -> None:
        """Replace the state with that of a snapshot; after InvalidFile it is unchanged."""
        try:
            states, open_transactions = _decode(content)
        except struct.error as error:
            raise InvalidFile(str(error)) from None
        self.by_id = states
        self.open_transactions = dict(sorted(open_transactions.items(), key=lambda entry: entry[1]))


def _check_new_epoch(
    state: ProducerState, producer_id: int, producer_epoch: int, first_sequence: int
) -> None:
    if producer_epoch < state.epoch:
        raise _old_epoch(producer_id, producer_epoch, state.epoch)
    if first_sequence > 0:
        raise OutOfOrderSequence(
            f"producer {producer_id} starts epoch {producer_epoch} with sequence {first_sequence}, not 0",
            hint="batches before this one are missing; the producer must send them first",
        )


def _old_epoch(producer_id: int, producer_epoch: int, known_epoch: int) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {producer_id} wrote with epoch {producer_epoch} but epoch {known_epoch} is known",
        hint="another instance with the same transactional id has fenced this one; stop it",
    )


def _rejection(
    state: ProducerState, producer_id: int, first_sequence: int
) -> DuplicateSequence | OutOfOrderSequence:
    if not _is_from(first_sequence, state.next_sequence) and not (
        state.batches and _is_from(first_sequence, state.batches[0].first_sequence)
    ):
        newest = (state.next_sequence - 1) % SEQUENCE_LIMIT
        return DuplicateSequence(
            f"producer {producer_id} sent sequence {first_sequence} again, {newest} is stored already",
            hint="the records are in the log; the producer may continue",
        )
    return OutOfOrderSequence(
        f"producer {producer_id} sent sequence {first_sequence} where {state.next_sequence} is next",
        hint="batches before this one are missing; the producer must send them first",
    )


def _is_from(sequence: int, other: int) -> bool:
    # Sequences wrap around; half of the circle is before, half after.
    return (sequence - other) % SEQUENCE_LIMIT < SEQUENCE_LIMIT // 2


def _decode(content: bytes) -> tuple[dict[int, ProducerState], dict[int, int]]:
    version, checksum = SNAPSHOT_HEAD.unpack_from(content)
    body = content[SNAPSHOT_HEAD.size :]
    if version != _SNAPSHOT_VERSION:
        raise InvalidFile(f"version {version} is not known")
    if google_crc32c.value(body) != checksum:
        raise InvalidFile("its checksum does not match")
    (count,) = SNAPSHOT_COUNT.unpack_from(body)
    if count < 0 or count * SNAPSHOT_ENTRY.size > len(body):
        raise InvalidFile(f"it announces {count} producers")
    entries_end = SNAPSHOT_COUNT.size + count * SNAPSHOT_ENTRY.size
    states: dict[int, ProducerState] = {}
    newest: dict[int, SequencedBatch] = {}
    open_transactions: dict[int, int] = {}
    for entry in SNAPSHOT_ENTRY.iter_unpack(body[SNAPSHOT_COUNT.size : entries_end]):
        producer_id, epoch, last_sequence, last_offset, delta, seen_ms, coordinator_epoch, first_offset = (
            entry
        )
        states[producer_id] = ProducerState(epoch, seen_ms)
        states[producer_id].coordinator_epoch = coordinator_epoch
        if first_offset >= 0:
            open_transactions[producer_id] = first_offset
        if last_sequence >= 0:
            first_sequence = (last_sequence - delta) % SEQUENCE_LIMIT
            newest[producer_id] = SequencedBatch(
                first_sequence, last_sequence, last_offset - delta, last_offset
            )
    if body[entries_end:].startswith(_BATCHES_MAGIC):
        _decode_batches(body[entries_end + len(_BATCHES_MAGIC) :], states)
    for producer_id, batch in newest.items():
        # Without the section, as another version or Kafka wrote it, only the last one is known.
        if not states[producer_id].batches:
            states[producer_id].add(batch)
    return states, open_transactions


def _decode_batches(section: bytes, states: dict[int, ProducerState]) -> None:
    (count,) = SNAPSHOT_COUNT.unpack_from(section)
    batches = section[SNAPSHOT_COUNT.size :]
    for batch in _BATCH.iter_unpack(batches[: count * _BATCH.size]):
        producer_id, first_sequence, last_sequence, base_offset, checksum, is_aborted = batch
        last_offset = base_offset + (last_sequence - first_sequence) % SEQUENCE_LIMIT
        if producer_id in states:
            states[producer_id].add(
                SequencedBatch(
                    first_sequence, last_sequence, base_offset, last_offset, checksum, bool(is_aborted)
                )
            )
