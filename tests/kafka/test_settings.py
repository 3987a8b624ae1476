"""The configuration of clients, addresses, and brokers that do not listen."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.kafka.errors import RequestFailed
from headrace.kafka.settings import client_config, parse_address, require_broker


def test_options_are_named_as_librdkafka_names_them_and_win_over_the_config() -> None:
    config = client_config("host:1", {"linger.ms": 1, "log_level": 3}, linger_ms=5, group_id="g")

    assert config == {"bootstrap.servers": "host:1", "log_level": 3, "linger.ms": 5, "group.id": "g"}


def test_clients_own_log_lines_are_off_unless_wanted() -> None:
    assert client_config("host:1")["log_level"] == 0


def test_bootstrap_comes_from_argument_before_config_before_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "environment:3")
    config = {"bootstrap.servers": "config:2"}

    assert client_config("argument:1", config)["bootstrap.servers"] == "argument:1"
    assert client_config(None, config)["bootstrap.servers"] == "config:2"
    assert client_config(None)["bootstrap.servers"] == "environment:3"


@pytest.mark.parametrize(
    ("address", "parsed"), [("localhost:9092", ("localhost", 9092)), ("[::1]:1", ("::1", 1))]
)
def test_address_is_parsed(address: str, parsed: tuple[str, int]) -> None:
    assert parse_address(address) == parsed


@pytest.mark.parametrize("address", ["nowhere", "host:", ":9092", "host:port", "host:99999"])
def test_bad_address_is_rejected(address: str) -> None:
    with pytest.raises(HeadraceError, match="HOST:PORT"):
        parse_address(address)


def test_one_address_that_listens_is_enough_and_none_is_an_error_with_every_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        unused = f"127.0.0.1:{closed.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_broker(f"{unused}, 127.0.0.1:{server.getsockname()[1]}")

    with pytest.raises(
        RequestFailed, match=f"no broker answers at {unused}.*refused.*headrace broker --listen"
    ):
        require_broker(unused)
