from __future__ import annotations

from pathlib import Path

import pytest

from headrace.edges.settings import edge_settings
from headrace.settings import BadSetting


def test_flags_override_the_table_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headrace.toml").write_text('[edge]\noverload = "buffer"\nstop_s = 3\n')
    assert edge_settings(overload=None).overload == "buffer"
    found = edge_settings(overload="block", data_dir=Path("here"))
    assert (found.overload, found.stop_s, found.data_dir) == ("block", 3, Path("here"))


@pytest.mark.parametrize(
    "flags", [{"overload": "drop"}, {"memory_bytes_max": 10}, {"in_flight_bytes_max": 0}, {"stop_s": -1}]
)
def test_setting_out_of_its_range_is_rejected(flags: dict[str, object]) -> None:
    with pytest.raises(BadSetting):
        edge_settings(**flags)
