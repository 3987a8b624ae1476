from __future__ import annotations

import socket

import pytest

from headrace.edges.addresses import address_of, bind
from headrace.edges.errors import BadEdge


def test_port_zero_is_any_free_one() -> None:
    with bind("127.0.0.1:0", socket.SOCK_DGRAM, is_open=False) as udp:
        assert address_of(udp) == f"127.0.0.1:{udp.getsockname()[1]}"
    with bind("[::1]:0", socket.SOCK_STREAM, is_open=False) as tcp:
        assert address_of(tcp).startswith("[::1]:")


def test_other_machines_are_let_in_only_if_the_user_says_so() -> None:
    with pytest.raises(BadEdge, match="--insecure"):
        bind("0.0.0.0:0", socket.SOCK_DGRAM, is_open=False)
    bind("0.0.0.0:0", socket.SOCK_DGRAM, is_open=True).close()


def test_address_that_is_taken_is_an_error_with_the_remedy() -> None:
    with (
        bind("127.0.0.1:0", socket.SOCK_DGRAM, is_open=False) as taken,
        pytest.raises(BadEdge, match="--listen"),
    ):
        bind(address_of(taken), socket.SOCK_DGRAM, is_open=False)
