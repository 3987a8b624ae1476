"""The table of what can happen to a record, and its picture in the docs."""

from __future__ import annotations

from pathlib import Path

from headrace.broker.shares.states import TRANSITIONS, RecordState

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "queues.md"


def arrows() -> set[str]:
    moves: dict[tuple[RecordState, RecordState], list[str]] = {}
    for (old, trigger), new in TRANSITIONS.items():
        moves.setdefault((old, new), []).append(trigger.value)
    return {
        f"{old.name.title()} --> {new.name.title()}: {'<br/>'.join(words)}"
        for (old, new), words in moves.items()
    }


def test_picture_in_the_docs_is_the_table() -> None:
    picture = PAGE.read_text().split("```mermaid")[1].split("```")[0]
    drawn = {line.strip() for line in picture.splitlines() if ": " in line}
    assert drawn == arrows()


def test_what_is_done_stays_done() -> None:
    assert [old for old, _ in TRANSITIONS if old.is_final] == []
