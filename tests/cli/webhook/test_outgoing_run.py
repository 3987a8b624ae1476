"""What `headrace webhook out run` shows."""

from __future__ import annotations

import pytest
from rich.console import Console

from headrace.cli.webhook.outgoing_run import StateLines, render
from headrace.webhooks.outgoing.state import TargetState, TargetStatus


def test_table_has_a_row_for_each_target_in_plain_text() -> None:
    console = Console(width=200, record=True, file=None)
    with console.capture() as shown:
        console.print(
            render(
                {
                    "b": TargetStatus(state=TargetState.PAUSED, error="[red]HTTP 410"),
                    "a": TargetStatus(state=TargetState.RUNNING, delivered=1_234, pending=5, per_s=99.6),
                }
            )
        )
    _, _, first, second, *_ = shown.get().splitlines()
    assert first.split() == ["a", "running", "1,234", "100", "0", "5", "0"]
    assert "[red]HTTP 410" in second


def test_without_a_terminal_a_line_is_printed_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StateLines()
    running = TargetStatus(state=TargetState.RUNNING)
    for status in (running, running, TargetStatus(state=TargetState.RUNNING, dead_letters=1)):
        lines.show({"a": status})
    lines.show({"a": TargetStatus(state=TargetState.FAILED, error="no\nbroker\x1b[1m")})
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "webhook a: running"
    assert "dead list a" in out[1]
    assert len(out) == 3
    assert "\x1b" not in out[2]
