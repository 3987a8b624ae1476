"""What commands print as JSON has the fields and types that the reference names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from headrace.cli.main import app
from headrace.cli.output import RESULTS
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
    told = headrace("produce", topic, "--report", "json", stdin="a\nb\n").out

    assert json_problems("produce", told) == []
    assert json.loads(told)["records"] == 2
