"""AddOffsetsToTxn: a group whose offsets a transaction is about to commit.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
3: flexible.
4: the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message


@message(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnRequest(Struct, frozen=True, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
