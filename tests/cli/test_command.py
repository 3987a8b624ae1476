"""How commands are declared, and the cluster that they talk to."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from headrace.cli.command import Bootstrap, command_app, command_group, connect
from headrace.errors import HeadraceError
from headrace.testing import ports


@pytest.mark.parametrize("option", ["--bootstrap", "--bootstrap-server", "-b"])
def test_bootstrap_is_given_by_each_name_of_the_option(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = command_app()

    @app.command()
    def show(bootstrap: Bootstrap = None) -> None:
        print(bootstrap)

    app([option, "host:1"], standalone_mode=False)
    app([], standalone_mode=False)

    assert capsys.readouterr().out == "host:1\nNone\n"


def test_group_without_a_command_shows_its_help() -> None:
    app = command_group("Things to do.")
    for name in ("first", "second"):
        app.command(name)(lambda: None)

    shown = CliRunner().invoke(app, [])

    assert shown.exit_code == 2
    assert "Things to do." in shown.output


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


def test_address_where_nothing_listens_is_an_error_immediately() -> None:
    with pytest.raises(HeadraceError, match="no broker answers"):
        connect(f"127.0.0.1:{ports.free_port()}")
