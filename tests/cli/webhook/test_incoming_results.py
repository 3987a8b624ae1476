"""The results of `headrace webhook in` have no place for a secret, but for one that was just generated."""

from __future__ import annotations

from headrace.cli.output import RESULTS
from headrace.cli.webhook import incoming

COMMANDS = ("add", "list", "show", "rotate", "remove", "test")


def test_every_command_has_a_result() -> None:
    assert len(incoming.app.registered_commands) == len(COMMANDS)
    assert {f"webhook in {each}" for each in COMMANDS} <= set(RESULTS)


def test_only_the_commands_that_generate_a_secret_can_print_one() -> None:
    with_secret = {name for name, each in RESULTS.items() if "secret" in each.kind.__struct_fields__}
    assert {each for each in with_secret if each.startswith("webhook in")} == {
        "webhook in add",
        "webhook in rotate",
    }
