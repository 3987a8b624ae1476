"""Every command that changes or shows something declares its JSON."""

from __future__ import annotations

import pytest

from headrace.cli.output import RESULTS
from headrace.cli.webhook import outgoing, outgoing_results


@pytest.mark.parametrize(
    "command",
    [each.name or each.callback.__name__ for each in outgoing.app.registered_commands if each.callback],
)
def test_command_has_a_result(command: str) -> None:
    assert outgoing_results.AddedTarget in [each.kind for each in RESULTS.values()]
    assert command == "run" or f"webhook out {command}" in RESULTS
