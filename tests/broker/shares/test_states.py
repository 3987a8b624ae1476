"""The table of what can happen to a record, and its picture in the docs."""

from __future__ import annotations

from pathlib import Path

from headrace.broker.shares.states import FINAL_STATES, TRANSITIONS, RecordState

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "queues.md"


def arrows() -> set[str]:
    moves: dict[tuple[RecordState, RecordState], list[str]] = {}
    for (old, trigger), new in TRANSITIONS.items():
        moves.setdefault((old, new), []).append(trigger.value)
    return {
        f"{old.name.title()} --> {new.name.title()}: {'<br/>'.join(words)}"
        for (old, new), words in moves.items()
    }


def test_diagram_in_the_docs_matches_the_transitions() -> None:
    picture = PAGE.read_text().split("```mermaid")[1].split("```")[0]
    drawn = {line.strip() for line in picture.splitlines() if ": " in line}
    assert drawn == arrows()


def test_final_states_have_no_transitions() -> None:
    assert [old for old, _ in TRANSITIONS if old in FINAL_STATES] == []
