"""A group imports a command when it is called, and not before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.lazy_group import LazyGroup

COMMAND = """
import typer

app = typer.Typer()


@app.command()
def greet() -> None:
    print("hello")
"""


class Later(LazyGroup):
    modules: ClassVar = {"greet": "lazily_imported_greeting", "missing": "lazily_imported_nothing"}


app = typer.Typer(cls=Later)


@app.callback()
def group() -> None:
    """A group."""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazily_imported_greeting.py").write_text(COMMAND)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lazily_imported_greeting", raising=False)


def test_command_is_imported_when_it_is_called() -> None:
    CliRunner().invoke(app, ["other"])
    assert "lazily_imported_greeting" not in sys.modules
    assert CliRunner().invoke(app, ["greet"]).output == "hello\n"
    assert "lazily_imported_greeting" in sys.modules


def test_unknown_command_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["im"]).exit_code == 2


def test_module_that_is_missing_is_a_bug_and_not_hidden() -> None:
    assert isinstance(CliRunner().invoke(app, ["missing"]).exception, ModuleNotFoundError)
