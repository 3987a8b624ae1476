"""Every command of `headrace alert` with JSON declares it."""

from __future__ import annotations

from headrace.cli.alert import commands
from headrace.cli.output import RESULTS


def test_every_command_but_run_declares_its_json() -> None:
    named = {
        f"alert {each.name or each.callback.__name__}"
        for each in commands.app.registered_commands
        if each.callback
    }
    silence = {"alert silence add", "alert silence list", "alert silence remove"}
    assert {name for name in RESULTS if name.startswith("alert ")} == (named | silence) - {"alert run"}
