"""Options mean the same for every edge."""

from __future__ import annotations

import inspect

import pytest

from headrace.cli.edge import options
from headrace.cli.edge.commands import app


@pytest.mark.parametrize("command", app.registered_commands, ids=lambda each: each.callback.__name__)
def test_every_edge_takes_the_shared_options(command: object) -> None:
    parameters = inspect.signature(command.callback, eval_str=True).parameters  # type: ignore[attr-defined]
    assert parameters["topic"].annotation == options.Topic
    assert parameters["name"].annotation == options.EdgeName
    assert parameters["metrics_port"].annotation == options.MetricsPort
