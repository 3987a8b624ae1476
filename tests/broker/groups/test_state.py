"""A group as a value: its table of transitions is the picture in the docs, and its counts follow its members."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.state import TRANSITIONS, Group, GroupState, Member
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.simulation import code_of, offers

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "groups.md"


def picture() -> str:
    """The table of transitions as a Mermaid diagram, one arrow for each pair of states."""
    arrows: dict[tuple[GroupState, GroupState], list[str]] = {}
    for (before, trigger), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(trigger.value)
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY.value}"]
    lines += [
        f"    {before.value} --> {after.value}: {'<br/>'.join(reasons)}"
        for (before, after), reasons in arrows.items()
    ]
    lines += [f"    {GroupState.DEAD.value} --> [*]"]
    return "\n".join(["```mermaid", *lines, "```"])


def test_page_on_groups_shows_the_table_of_transitions() -> None:
    assert picture() in PAGE.read_text(), f"put this into {PAGE.name}:\n{picture()}"


def test_every_state_but_the_first_can_be_reached_and_every_one_but_the_last_left() -> None:
    reached = set(TRANSITIONS.values())
    left = {before for before, _ in TRANSITIONS}
    assert reached == set(GroupState)
    assert left == set(GroupState) - {GroupState.DEAD}


def member(
    member_id: str, *protocols: str, is_joining: bool = False, instance_id: str | None = None
) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=offers(*protocols),
        join_request=1 if is_joining else None,
    )


MEMBERS = st.builds(
    lambda name, protocols, is_joining: member(name, *protocols, is_joining=is_joining),
    st.sampled_from("abc"),
    st.lists(st.sampled_from(["range", "sticky"]), min_size=1),
    st.booleans(),
)


@given(st.lists(MEMBERS | st.sampled_from("abc")))
def test_counts_are_those_of_the_members_after_every_change(changes: list[Member | str]) -> None:
    group = Group(group_id="g", leader_id="a")
    for change in changes:
        group = group.put(change) if isinstance(change, Member) else group.without([change])
        members = group.members.values()
        assert group.joining_count == sum(one.join_request is not None for one in members)
        offered = Counter(name for one in members for name in {offer.name for offer in one.protocols})
        assert group.protocol_counts == offered
        assert group.all_joined == all(one.join_request is not None for one in members)


def test_another_member_becomes_the_leader_when_the_leader_is_removed() -> None:
    group = Group(group_id="g", leader_id="a").put(member("a"), member("b"))
    assert group.without(["b"]).leader_id == "a"
    assert group.without(["a"]).leader_id == "b"
    assert group.without(["a", "b"]).leader_id is None


def test_old_id_of_a_static_member_is_fenced() -> None:
    group = Group(group_id="g").put(member("new", instance_id="i"))
    assert group.require_member("new", "i") is group.members["new"]
    assert code_of(group.require_member, "old", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(group.require_member, "new", "other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(group.require_member, "old", None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_protocol_that_all_members_offer_wins_over_one_with_more_votes() -> None:
    group = Group(group_id="g").put(
        member("a", "sticky", "range"), member("b", "sticky", "range"), member("c", "range")
    )
    assert group.select_protocol() == "range"
    assert group.without(["c"]).select_protocol() == "sticky"
