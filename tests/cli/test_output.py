"""The JSON of commands has the fields and types that the reference names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from msgspec import Struct

from headrace.cli.main import app
from headrace.cli.output import RESULTS, ended_by_closed_pipe, progress_bar, show_rows
from tests.cli.conftest import Headrace
from tests.cli.typed_json import json_problems


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), (*path, name))


def test_every_command_with_a_format_declares_its_json() -> None:
    with_format = {
        path
        for path, command in commands(typer.main.get_command(app))
        for option in command.params
        if {"--format", "--report"} & {*option.opts} and "json" in getattr(option.type, "choices", ())
    }

    assert with_format == {*RESULTS}


@pytest.mark.parametrize(
    ("declared", "arguments"),
    [
        ("broker", ["broker", "--check"]),
        ("topic create", ["topic", "create", "NAME-new"]),
        ("topic list", ["topic", "list", "--internal"]),
        ("topic describe", ["topic", "describe", "NAME", "--all-configs"]),
        ("topic alter", ["topic", "alter", "NAME", "--partitions", "3", "--delete-config", "retention.ms"]),
        ("topic delete", ["topic", "delete", "NAME", "--yes"]),
        ("consume", ["consume", "NAME"]),
        ("group list", ["group", "list", "--internal"]),
        ("group describe", ["group", "describe", "NAME"]),
        ("group seek", ["group", "seek", "NAME", "--all-topics", "--to-earliest", "--dry-run"]),
        ("group delete", ["group", "delete", "NAME", "--yes"]),
        ("queue alter", ["queue", "alter", "NAME-queue"]),
        ("top", ["top", "--count", "2", "--interval", "0.1"]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_json_is_as_declared(headrace: Headrace, numbers: str, declared: str, arguments: list[str]) -> None:
    headrace("produce", numbers, "--key", "k", "--header", "h=1", stdin="with a key\n")
    headrace("consume", numbers, "--group", numbers)

    shown = headrace(*(each.replace("NAME", numbers) for each in arguments), "--format", "json").out

    assert json_problems(declared, shown) == []


def test_report_of_produce_is_as_declared(headrace: Headrace, topic: str) -> None:
    report = headrace("produce", topic, "--report", "json", stdin="a\nb\n").out

    assert json_problems("produce", report) == []
    assert json.loads(report)["records"] == 2


class Row(Struct, frozen=True):
    group: str
    not_done: int | None
    topics: list[str]


ROWS = [Row("a", 12, ["x", "y"]), Row("long\x1b[2J", None, [])]


def test_rows_are_a_table_of_their_fields_with_numbers_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_rows(ROWS, "text", empty="no rows")

    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "group         not done   topics",
        "───────────────────────────────",
        "a                   12   x, y",
        r"long\x1b[2J          -",
    ]


def test_rows_are_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, "json", empty="no rows")

    assert json.loads(capsys.readouterr().out)[0] == {"group": "a", "not_done": 12, "topics": ["x", "y"]}


def test_list_without_rows_has_a_hint_for_people_and_is_empty_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_rows([], "text", empty="no rows")
    show_rows([], "json", empty="no rows")

    assert capsys.readouterr().out == "no rows\n[]\n"


def test_progress_is_not_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("file", 10) as on_progress:
        on_progress(5)

    assert capsys.readouterr() == ("", "")


def test_closed_pipe_ends_a_command_without_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, ended_by_closed_pipe():
        raise BrokenPipeError

    assert ended.value.exit_code == 0
    print("is written nowhere", flush=True)
    os.write(1, b"nor this")
    assert capfd.readouterr().out == ""
