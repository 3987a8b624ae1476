"""Secrets come from standard input or a file, as one line."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import typer

from headrace.cli.webhook.secret_input import read_secret
from headrace.webhooks.errors import BadWebhook


@pytest.mark.parametrize("text", ["hunter2", "hunter2\n", "hunter2\r\n"])
def test_line_of_standard_input_or_a_file_is_the_secret(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text, newline=""))
    assert read_secret(stdin=True, file=None) == "hunter2"
    (tmp_path / "secret").write_text(text, newline="")
    assert read_secret(stdin=False, file=tmp_path / "secret") == "hunter2"


def test_nothing_is_read_without_an_option() -> None:
    assert read_secret(stdin=False, file=None) is None


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n", " hunter2", "x" * 10_000])
def test_text_that_is_no_line_with_a_secret_is_rejected(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    with pytest.raises(BadWebhook, match="the secret"):
        read_secret(stdin=True, file=None)


def test_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "binary"):
        with pytest.raises(BadWebhook, match=f"can't read the secret from .*{name}"):
            read_secret(stdin=False, file=tmp_path / name)


def test_both_places_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter):
        read_secret(stdin=True, file=tmp_path / "secret")
