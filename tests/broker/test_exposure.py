"""Closed by default: an address that other machines reach needs a word from whoever starts the broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.broker.exposure import AddressExposed, check_exposure, is_loopback
from headrace.broker.settings import BrokerSettings
from tests.broker.conftest import StartBroker


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_loopback_is_open_to_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_every_other_address_is_exposed(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("settings", [{}, {"metrics_port": 0}])
def test_exposed_address_is_refused_before_anything_is_written(
    tmp_path: Path, start_broker: StartBroker, settings: dict[str, int]
) -> None:
    with pytest.raises(AddressExposed, match="without authentication") as refused:
        start_broker(tmp_path / "data", host="0.0.0.0", **settings)
    assert "--insecure" in refused.value.hint
    assert not (tmp_path / "data").exists()


def test_insecure_address_is_allowed_with_a_loud_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        check_exposure(BrokerSettings(host="0.0.0.0", insecure=True))
    (warning,) = caplog.records
    assert warning.getMessage().startswith("INSECURE: ")


def test_loopback_broker_warns_of_nothing(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        start_broker(insecure=True)
    assert caplog.records == []
