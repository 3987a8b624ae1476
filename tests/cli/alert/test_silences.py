"""`headrace alert silence`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems


def test_silence_is_added_listed_and_removed(headrace: Headrace, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path))
    assert "no silences" in headrace("alert", "silence", "list", *folder).out
    headrace(
        *(
            "alert",
            "silence",
            "add",
            "--for",
            "2h",
            "--alert",
            "err*",
            "--key",
            "service=a",
            "--comment",
            "deploy",
        ),
        *folder,
    )
    out = headrace("alert", "silence", "list", "--format", "json", *folder).out
    assert json_problems("alert silence list", out) == []
    (found,) = json.loads(out)
    assert (found["alert"], found["key"], found["comment"]) == ("err*", {"service": "a"}, "deploy")
    headrace("alert", "silence", "remove", found["id"], *folder)
    assert "no silence" in headrace("alert", "silence", "remove", found["id"], *folder, code=1).err


def test_silence_that_is_over_or_matches_no_field_is_an_error(headrace: Headrace, tmp_path: Path) -> None:
    add = ("alert", "silence", "add", "--data-dir", str(tmp_path))
    assert "over already" in headrace(*add, "--for", "1h", "--from", "2h", code=1).err
    assert "FIELD=PATTERN" in headrace(*add, "--for", "1h", "--key", "service", code=1).err
