"""The points of a rebuild."""

from __future__ import annotations

import pytest

from headrace.views import points


def test_hooks_learn_which_point_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(points, "hooks", [seen.append])
    points.reached("version-built")
    points.reached("compared")
    assert seen == ["version-built", "compared"]
