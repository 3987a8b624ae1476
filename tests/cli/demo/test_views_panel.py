"""The panel of the views, before there are any. `test_run` shows them."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.demo.views_panel import ViewsPanel


def test_panel_says_what_it_waits_for_until_there_are_views(tmp_path: Path) -> None:
    panel = ViewsPanel(tmp_path)
    panel.sample()
    assert panel.rows == []
    assert panel.summary() == ""
    assert "as soon as Spark runs" in str(panel.render(3))
