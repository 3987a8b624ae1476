"""ListGroups: the groups that a broker coordinates.

1: throttle time.
3: flexible.
4: states, and a filter for them.
5: types (classic, consumer, share), and a filter for them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message, since


@message(ApiKey.LIST_GROUPS, versions=(0, 5), flexible_since=3)
class ListGroupsRequest(Struct, frozen=True, kw_only=True):
    states_filter: Annotated[tuple[String, ...], since(4)] = ()
    types_filter: Annotated[tuple[String, ...], since(5)] = ()


class ListedGroup(Struct, frozen=True, kw_only=True):
    group_id: String
    protocol_type: String = ""
    group_state: Annotated[String, since(4)] = ""
    group_type: Annotated[String, since(5)] = ""


@message(ApiKey.LIST_GROUPS, versions=(0, 5), flexible_since=3)
class ListGroupsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
