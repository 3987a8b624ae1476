"""The picture in the docs is the table in the code."""

from __future__ import annotations

from pathlib import Path

from headrace.broker.transactions.state import TRANSITIONS, TransactionState

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "transactions.md"


def picture() -> str:
    """The table of transitions as a Mermaid diagram, one arrow for each pair of states."""
    arrows: dict[tuple[TransactionState, TransactionState], list[str]] = {}
    for (before, trigger), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(trigger.value)
    lines = ["stateDiagram-v2", f"    [*] --> {TransactionState.EMPTY.display_name}"]
    lines += [
        f"    {before.display_name} --> {after.display_name}: {'<br/>'.join(reasons)}"
        for (before, after), reasons in arrows.items()
    ]
    lines += [f"    {TransactionState.DEAD.display_name} --> [*]"]
    return "\n".join(["```mermaid", *lines, "```"])


def test_the_page_on_transactions_shows_the_table_of_transitions() -> None:
    assert picture() in PAGE.read_text(), f"put this into {PAGE.name}:\n{picture()}"
