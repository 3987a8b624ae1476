"""ListGroups: all groups, or those with given states (4) or types (5)."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"


@handles(ApiKey.LIST_GROUPS, versions=(0, 5))
def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=tuple(
            group
            for group in _all_groups(call)
            if (not types or group.group_type in types)
            and (not states or group.group_state.lower() in states)
        )
    )


def _all_groups(call: Call) -> Iterator[ListedGroup]:
    for group in call.parts.groups.groups():
        yield _listed(group.group_id, group.state.value, CLASSIC, group.protocol_type or "")
    for consumer_group in call.parts.groups.consumer_groups():
        yield _listed(consumer_group.group_id, consumer_group.state.value, CONSUMER, CONSUMER)
    for share_group in call.parts.share_members.groups():
        yield _listed(share_group.group_id, share_group.state.value, SHARE, SHARE)


def _listed(group_id: str, state: str, kind: str, protocol_type: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=kind)
