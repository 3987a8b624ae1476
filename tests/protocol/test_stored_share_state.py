"""The records of `__share_group_state`, byte for byte."""

from __future__ import annotations

import uuid

from headrace.protocol.stored_share_state import (
    SHARE_GROUP_STATE,
    ShareSnapshotKey,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_the_bytes_of_share_state_follow_the_definitions_field_by_field() -> None:
    snapshot_key = ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=5)
    update_key = ShareUpdateKey(group_id="g", topic_id=TOPIC_ID, partition=5)
    assert SHARE_GROUP_STATE.encode_key(snapshot_key).hex() == "0000" + "000167" + TOPIC_ID.hex + "00000005"
    assert SHARE_GROUP_STATE.encode_key(update_key).hex() == "0001" + "000167" + TOPIC_ID.hex + "00000005"
    batch = StateBatch(first_offset=1, last_offset=2, delivery_state=4, delivery_count=3)
    update = ShareUpdateValue(
        snapshot_epoch=7, leader_epoch=8, delivery_complete_count=9, state_batches=(batch,)
    )
    assert SHARE_GROUP_STATE.encode_value(update).hex() == (
        "0000" + "00000007" + "00000008" + "ffffffffffffffff"
        "02" + "0000000000000001" + "0000000000000002" + "04" + "0003" + "00"
        "01" + "0004" + "00000009"
    )  # fmt: skip
