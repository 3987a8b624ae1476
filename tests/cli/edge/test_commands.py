"""The group itself."""

from __future__ import annotations

from tests.cli.conftest import Headrace


def test_help_lists_every_edge(headrace: Headrace) -> None:
    out = headrace("edge", "--help").out
    assert all(f" {each} " in out for each in ("files", "statsd", "tcp", "multicast", "zeromq", "nng"))
