"""DeleteGroups: delete empty groups and their offsets.

2: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message


@message(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest(Struct, frozen=True, kw_only=True):
    groups_names: tuple[String, ...]


class DeletableGroupResult(Struct, frozen=True, kw_only=True):
    group_id: String
    error_code: Int16 = 0


@message(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...]
