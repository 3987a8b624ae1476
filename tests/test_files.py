"""Files that are replaced atomically."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from msgspec import Struct

from headrace import files
from headrace.files import replace_json, replace_link, replace_text


class Content(Struct):
    name: str
    numbers: tuple[int, ...]


def test_replaced_file_has_the_new_text_and_no_other_file_remains(tmp_path: Path) -> None:
    for text in ("first, and longer", "größer"):
        replace_text(tmp_path / "status", text)
    assert (tmp_path / "status").read_text(encoding="utf-8") == "größer"
    assert [each.name for each in tmp_path.iterdir()] == ["status"]


def test_file_keeps_its_text_if_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    replace_text(tmp_path / "status", "old")
    with pytest.raises(UnicodeEncodeError):
        replace_text(tmp_path / "status", "\ud800")
    assert (tmp_path / "status").read_text() == "old"


def test_durable_file_is_synced_before_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[object] = []
    monkeypatch.setattr(files, "sync_file", lambda _fd: synced.append((tmp_path / "status").exists()))
    monkeypatch.setattr(files, "sync_directory", synced.append)
    replace_text(tmp_path / "status", "new", durable=True)
    assert synced == [False, tmp_path]


def test_struct_is_written_as_json_for_people(tmp_path: Path) -> None:
    replace_json(tmp_path / "status.json", Content(name="j", numbers=(1, 2)))
    text = (tmp_path / "status.json").read_text()
    assert json.loads(text) == {"name": "j", "numbers": [1, 2]}
    assert text.splitlines()[1] == ' "name": "j",'


def test_replaced_link_has_the_new_target_and_nothing_else_remains(tmp_path: Path) -> None:
    for target in ("one", "two"):
        replace_link(tmp_path / "link", target)
        assert (tmp_path / "link").readlink() == Path(target)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_private_file_is_for_its_owner_only_also_if_it_was_not_before(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    replace_json(tmp_path / "secret.json", Content(name="j", numbers=()), private=True)
    assert stat.S_IMODE((tmp_path / "secret.json").stat().st_mode) == 0o600
