"""ListGroups: all groups, or those with given states (4) or types (5)."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.refusals import RequestRefused
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"


@handles(ApiKey.LIST_GROUPS, versions=(0, 5))
def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    try:
        groups = call.parts.groups.groups()
    except RequestRefused as refused:
        return ListGroupsResponse(error_code=refused.code)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    found = []
    if not types or CLASSIC in types:
        found += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in groups
            if not states or group.state.value.lower() in states
        ]
    if not types or CONSUMER in types:
        found += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=CONSUMER,
                group_state=state,
                group_type=CONSUMER,
            )
            for group in call.parts.groups.consumer_groups()
            if (state := group.state.value) and (not states or state.lower() in states)
        ]
    if not types or SHARE in types:
        found += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=SHARE,
                group_state=group.state.value,
                group_type=SHARE,
            )
            for group in call.parts.share_members.groups()
            if not states or group.state.value.lower() in states
        ]
    return ListGroupsResponse(groups=tuple(found))
