"""Free ports: different ones, that can be listened on, below those of outgoing connections."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from headrace.testing import free_port, free_ports


def test_ports_are_different_and_free() -> None:
    found = free_ports(20)
    assert len({*found}) == 20
    with ExitStack() as stack:
        for port in found:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))


def test_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    used, other = free_ports(2)
    monkeypatch.setattr("random.SystemRandom", lambda: _Chosen([used, other]))
    with socket.create_server(("127.0.0.1", used)):
        assert free_port() == other


class _Chosen:
    """Random numbers that the test has chosen."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers

    def sample(self, _population: range, _count: int) -> list[int]:
        return self._numbers
