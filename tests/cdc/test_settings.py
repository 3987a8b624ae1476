"""The `[cdc]` settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cdc.settings import cdc_settings


def test_data_folder_comes_from_the_file_and_the_flag_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cdc_settings().data_dir == Path("data")
    (tmp_path / "headrace.toml").write_text('[cdc]\ndata-dir = "elsewhere"\n')
    assert cdc_settings().data_dir == Path("elsewhere")
    assert cdc_settings(data_dir=tmp_path).data_dir == tmp_path
