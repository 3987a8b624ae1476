from __future__ import annotations

import pytest

from headrace.loopback import LOOPBACK_NAMES, host_name, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_only_this_machine_reaches_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_other_machines_reach_every_other_address(host: str) -> None:
    assert not is_loopback(host)


def test_loopback_is_known_by_any_of_its_names() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.8.8.8")
    assert is_loopback("localhost")
    assert not is_loopback("no-such-host.invalid")


@pytest.mark.parametrize("header", ["127.0.0.1", "localhost:8080", "[::1]:80", "localhost:"])
def test_name_of_the_header_is_without_the_port(header: str) -> None:
    assert host_name(header) in LOOPBACK_NAMES
    assert host_name(f"evil.example/{header}") not in LOOPBACK_NAMES
