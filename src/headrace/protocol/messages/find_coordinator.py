"""FindCoordinator: which broker coordinates a group or a transactional producer.

1: key type (0 group, 1 transaction), error message, throttle time.
3: flexible.
4: several keys in one request: `coordinator_keys` and `coordinators` replace the fields of a single one.
5: the error TRANSACTION_ABORTABLE.
6: key type 2, a share group's partition.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, NullableString, String, message, since, until


@message(ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_since=3)
class FindCoordinatorRequest(Struct, frozen=True, kw_only=True):
    key: Annotated[String, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[tuple[String, ...], since(4)] = ()


class Coordinator(Struct, frozen=True, kw_only=True):
    key: String
    node_id: Int32 = -1
    host: String = ""
    port: Int32 = -1
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_since=3)
class FindCoordinatorResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[NullableString, since(1), until(3)] = None
    node_id: Annotated[Int32, until(3)] = -1
    host: Annotated[String, until(3)] = ""
    port: Annotated[Int32, until(3)] = -1
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()
