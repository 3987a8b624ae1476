"""The `[alert]` table."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.alerts.settings import alert_settings


def test_folder_comes_from_the_flag_the_environment_or_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert alert_settings().data_dir == Path("data")
    monkeypatch.setenv("HEADRACE_ALERT_DATA_DIR", "elsewhere")
    assert alert_settings().data_dir == Path("elsewhere")
    assert alert_settings(data_dir=Path("here")).data_dir == Path("here")
