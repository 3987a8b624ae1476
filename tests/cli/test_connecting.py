"""A command checks that a broker listens before it asks for anything, and waits no longer than it may."""

from __future__ import annotations

import pytest

from headrace.cli.connecting import connect
from headrace.kafka.errors import NoBroker
from headrace.testing import ports


def test_cluster_has_the_address_and_the_time_of_the_settings(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CLIENT_TIMEOUT_S", "7")

    cluster = connect(bootstrap)

    assert (cluster.bootstrap, cluster.timeout_s) == (bootstrap, 7)
    assert cluster.client_config()["client.id"] == "headrace-cli"


def test_command_may_wait_for_less_than_the_settings_allow(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CLIENT_TIMEOUT_S", "7")

    assert connect(bootstrap, timeout_s_max=1).timeout_s == 1
    assert connect(bootstrap, timeout_s_max=60).timeout_s == 7


def test_address_where_nothing_listens_is_an_error_at_once() -> None:
    with pytest.raises(NoBroker, match="no broker answers"):
        connect(f"127.0.0.1:{ports.free_port()}")
