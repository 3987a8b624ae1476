"""The state of transactions, as records of the internal topic `__transaction_state`, in Kafka's own format."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol.stored_format import StoredFormat, StoredTopic
from headrace.protocol.types import Int8, Int16, Int32, Int64, String, since, tagged


class TransactionLogKey(Struct, frozen=True, kw_only=True):
    transactional_id: String


class PartitionsSchema(Struct, frozen=True, kw_only=True):
    topic: String
    partition_ids: tuple[Int32, ...]


class TransactionLogValue(Struct, frozen=True, kw_only=True):
    """The last state of a transactional id.

    Statuses: 0 empty, 1 ongoing, 2 commit and 3 abort prepared, 4 committed, 5 aborted, 6 dead, 7 a new epoch prepared.
    Null partitions are those of a transaction that has not started.

    1: flexible; in tags, the ids before and after this one, for producers whose epochs ran out or that don't know yet
       how their last transaction ended, and which version of the protocol the client uses.
    """

    producer_id: Int64
    previous_producer_id: Annotated[Int64, since(1), tagged(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tagged(1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, since(1), tagged(3)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: tuple[PartitionsSchema, ...] | None = None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64 = -1
    client_transaction_version: Annotated[Int16, since(1), tagged(2)] = 0


TRANSACTION_STATE: Final = StoredTopic[TransactionLogKey](
    StoredFormat(0, TransactionLogKey, TransactionLogValue, version_newest=1, flexible_since=1),
)
