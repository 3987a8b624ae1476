from __future__ import annotations

import pytest

from headrace.cdc.source import SnapshotProgress
from headrace.cli import cdc_progress
from headrace.cli.cdc_progress import SnapshotScreen


def at(rows: int, *, total: int | None = 1_000, is_done: bool = False) -> dict[str, list[SnapshotProgress]]:
    progress = SnapshotProgress(table="public.users", rows_read=rows, rows_total=total, is_done=is_done)
    return {"shop": [progress]}


def test_terminal_has_a_bar_for_each_table_that_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    with SnapshotScreen(is_terminal=True) as screen:
        screen.update(at(0))
        screen.update(at(500))
        screen.update(at(1_200))  # the total was an estimate
        screen.update(at(1_200, is_done=True))
    shown = capsys.readouterr().err
    assert "shop: public.users" in shown
    assert "1200/1200" in shown


def test_table_that_was_read_before_has_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with SnapshotScreen(is_terminal=True) as screen:
        screen.update(at(1_000, is_done=True))
    assert capsys.readouterr().err == ""


def test_other_output_has_few_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SnapshotScreen(is_terminal=False) as screen:
        screen.update(at(1))
        screen.update(at(2))
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(cdc_progress, "LINE_S", 0.0)
        screen.update(at(700))
        screen.update(at(700))
        screen.update(at(1_000, is_done=True))
    assert capsys.readouterr().err == "capture shop: public.users: 700 of about 1,000 rows read\n"


def test_total_that_is_unknown_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cdc_progress, "LINE_S", 0.0)
    with SnapshotScreen(is_terminal=False) as screen:
        screen.update(at(1, total=None))
        screen.update(at(2, total=None))
    assert capsys.readouterr().err == "capture shop: public.users: 2 rows read\n"
