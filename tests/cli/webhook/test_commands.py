"""`headrace webhook` has a group for each direction."""

from __future__ import annotations

from headrace.cli.webhook.commands import MODULES
from tests.cli.test_main import headrace


def test_both_directions_are_groups_of_commands() -> None:
    assert list(MODULES) == ["in", "out"]
    assert "rotate" in headrace("webhook", "in", "--help").stdout


def test_mistyped_direction_is_wrong_usage() -> None:
    failed = headrace("webhook", "inn", "list")
    assert failed.returncode == 2
    assert "Did you mean" in failed.stderr
