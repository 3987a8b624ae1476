"""DeleteGroups: forget empty groups and their offsets.

2: flexible.
"""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message
from headrace.values import value


@message(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: tuple[String, ...]


@value
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0


@message(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...]
