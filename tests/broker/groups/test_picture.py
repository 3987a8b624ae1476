"""The picture in the docs is the table in the code."""

from __future__ import annotations

from pathlib import Path

from headrace.broker.groups.state import TRANSITIONS, GroupState

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


def test_the_page_on_groups_shows_the_table_of_transitions() -> None:
    assert picture() in PAGE.read_text(), f"put this into {PAGE.name}:\n{picture()}"


def test_every_state_but_the_first_can_be_reached_and_every_one_but_the_last_left() -> None:
    reached = set(TRANSITIONS.values())
    left = {before for before, _ in TRANSITIONS}
    assert reached == set(GroupState)
    assert left == set(GroupState) - {GroupState.DEAD}
