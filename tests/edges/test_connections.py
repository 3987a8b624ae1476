from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from headrace.edges.connections import Connections
from tests.edges.conftest import wait_until


@pytest.fixture
def connections() -> Iterator[Connections]:
    with selectors.DefaultSelector() as selector:
        listener = socket.create_server(("127.0.0.1", 0))
        found = Connections(listener, selector, connections_max=2, line_bytes_max=5)
        yield found
        found.close()


def receive(connections: Connections) -> list[bytes]:
    """What is ready now."""
    lines: list[bytes] = []
    for key, _ in connections._selector.select(0.01):
        assert isinstance(key.fileobj, socket.socket)
        lines += connections.receive(key.fileobj)
    return lines


def connect(connections: Connections) -> socket.socket:
    return socket.create_connection(connections._listener.getsockname())


def lines_until(connections: Connections, count: int) -> list[bytes]:
    found: list[bytes] = []

    def is_enough() -> bool:
        found.extend(receive(connections))
        return len(found) >= count

    wait_until(is_enough)
    return found


def test_lines_of_several_connections_are_whole(connections: Connections) -> None:
    with connect(connections) as one, connect(connections) as two:
        one.sendall(b"one\nha")
        two.sendall(b"two\n")
        assert sorted(lines_until(connections, 2)) == [b"one", b"two"]
        one.sendall(b"lf\ntoo long\n")
        assert lines_until(connections, 1) == [b"half"]
        wait_until(lambda: not receive(connections) and connections.too_long == 1)
        two.sendall(b"last")
    assert lines_until(connections, 1) == [b"last"]
    assert (connections.accepted, connections.too_long) == (2, 1)


def test_connection_over_the_limit_is_closed_and_counted(connections: Connections) -> None:
    with connect(connections), connect(connections), connect(connections) as third:
        wait_until(lambda: not receive(connections) and connections.rejected == 1)
        third.settimeout(60)
        assert third.recv(1) == b""
    wait_until(lambda: not receive(connections) and not connections._readers)
    with connect(connections) as again:
        again.sendall(b"ok\n")
        assert lines_until(connections, 1) == [b"ok"]
