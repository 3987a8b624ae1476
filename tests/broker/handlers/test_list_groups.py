"""ListGroups over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit, stable_member
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(6))
def test_every_group_is_listed(wire: Wire, topic: str, version: int) -> None:
    live, simple = stable_member(wire, new_name()).group, new_name()
    commit(wire, simple, topic, 1)
    response = wire.request(ListGroupsRequest(), version=version)
    assert response.error_code == 0
    found = {one.group_id: one for one in response.groups}
    assert (found[live].protocol_type, found[simple].protocol_type) == ("consumer", "")
    if version >= 4:
        assert (found[live].group_state, found[simple].group_state) == ("Stable", "Empty")
    if version >= 5:
        assert found[live].group_type == "classic"


def test_groups_are_found_by_state_and_type_whatever_the_case(wire: Wire, topic: str) -> None:
    live, simple = stable_member(wire, new_name()).group, new_name()
    commit(wire, simple, topic, 1)

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
        response = wire.request(ListGroupsRequest(states_filter=states, types_filter=types))
        return {one.group_id for one in response.groups} & {live, simple}

    assert listed(states=("stable",)) == {live}
    assert listed(states=("Empty",)) == {simple}
    assert listed(states=("EMPTY", "Stable"), types=("Classic",)) == {live, simple}
    assert listed(types=("consumer",)) == set()
    assert listed(states=("nonsense",)) == set()
