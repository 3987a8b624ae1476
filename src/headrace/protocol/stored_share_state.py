"""The delivery state of share groups, as records of the internal topic `__share_group_state`.

A snapshot holds all of a partition's state for a group; updates after it hold what changed. Both have the same key but
for its kind, and the snapshot's epoch identifies the snapshot of an update. Names are Kafka's.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol.stored_format import StoredFormat, StoredTopic
from headrace.protocol.types import Int8, Int16, Int32, Int64, String, Uuid, tagged


class ShareSnapshotKey(Struct, frozen=True, kw_only=True):
    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct, frozen=True, kw_only=True):
    """Both offsets are part of it. States: 0 available, 2 acknowledged, 4 archived (rejected, or not deliverable)."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(Struct, frozen=True, kw_only=True):
    """The count is of the offsets from the start on whose delivery is complete; -1 if it is unknown."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tagged(0)] = -1
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: tuple[StateBatch, ...] = ()


class ShareUpdateKey(Struct, frozen=True, kw_only=True):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(Struct, frozen=True, kw_only=True):
    """A start offset of -1 leaves it where it was."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64 = -1
    delivery_complete_count: Annotated[Int32, tagged(0)] = -1
    state_batches: tuple[StateBatch, ...] = ()


SHARE_GROUP_STATE: Final = StoredTopic[ShareSnapshotKey | ShareUpdateKey](
    StoredFormat(0, ShareSnapshotKey, ShareSnapshotValue),
    StoredFormat(1, ShareUpdateKey, ShareUpdateValue),
)
