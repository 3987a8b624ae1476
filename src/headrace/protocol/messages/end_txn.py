"""EndTxn: commit or abort a transaction.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
3: flexible.
4: the error TRANSACTION_ABORTABLE.
5: every transaction ends an epoch: the response has the producer's id and epoch for the next one.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, Int64, String, message, since


@message(ApiKey.END_TXN, versions=(0, 5), flexible_since=3)
class EndTxnRequest(Struct, frozen=True, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(ApiKey.END_TXN, versions=(0, 5), flexible_since=3)
class EndTxnResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1
