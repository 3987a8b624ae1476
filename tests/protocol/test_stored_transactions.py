"""The records of `__transaction_state`, byte for byte."""

from __future__ import annotations

from headrace.protocol.stored_transactions import (
    TRANSACTION_STATE,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def test_the_bytes_of_transactions_follow_the_definitions_field_by_field() -> None:
    assert TRANSACTION_STATE.encode_key(TransactionLogKey(transactional_id="x")).hex() == "0000" + "000178"
    value = TransactionLogValue(
        producer_id=1,
        next_producer_id=6,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=4,
        transaction_partitions=(PartitionsSchema(topic="t", partition_ids=(9,)),),
        transaction_last_update_timestamp_ms=5,
        client_transaction_version=2,
    )
    fixed = "0000000000000001" + "0002" + "00000003" + "04"
    assert TRANSACTION_STATE.encode_value(value, 0).hex() == (
        "0000" + fixed + "00000001" + "000174" + "00000001" + "00000009" + "0000000000000005" + "ff" * 8
    )
    assert TRANSACTION_STATE.encode_value(value, 1).hex() == (
        "0001" + fixed + "02" + "0274" + "02" + "00000009" + "00" + "0000000000000005" + "ff" * 8
        + "02" + "0108" + "0000000000000006" + "0202" + "0002"
    )  # fmt: skip
