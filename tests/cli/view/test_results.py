"""The JSON of the commands of views is declared."""

from __future__ import annotations

import pytest

from headrace.cli.output import RESULTS, Shape
from tests.cli import typed_json


@pytest.mark.parametrize("command", ["create", "list", "lag", "rebuild", "remove"])
def test_result_of_each_command_is_declared_and_an_empty_one_is_wrong(command: str) -> None:
    assert typed_json.json_problems(
        f"view {command}", "[{}]" if RESULTS[f"view {command}"].shape is Shape.LIST else "{}"
    )
