"""InitProducerId: an id and an epoch for an idempotent or transactional producer.

2: flexible.
3: a producer that has an id requests its next epoch.
4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
5: the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, NullableString, message, since


@message(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), flexible_since=2)
class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    transactional_id: NullableString = None
    transaction_timeout_ms: Int32 = 60_000
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1


@message(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), flexible_since=2)
class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
