from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from headrace.edges.datagrams import BATCH, DATAGRAM_BYTES_MAX, Datagrams, KernelDrops, set_receive_buffer

MB = 1_000_000


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.fixture(params=["recvmmsg", "one by one"])
def datagrams(request: pytest.FixtureRequest, udp: socket.socket) -> Datagrams:
    found = Datagrams(udp)
    if request.param == "one by one":
        found._recvmmsg = None
    return found


def send(udp: socket.socket, *packets: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for packet in packets:
            sender.sendto(packet, udp.getsockname())


def test_datagrams_of_all_lengths_arrive_whole_and_in_order(udp: socket.socket, datagrams: Datagrams) -> None:
    set_receive_buffer(udp, MB)
    packets = [b"", b"a", b"x" * 1432, b"y" * 65_507, b"end"]
    send(udp, *packets)
    assert datagrams.receive() == packets
    assert datagrams.receive() == []


def test_more_than_a_batch_is_received_in_batches(udp: socket.socket, datagrams: Datagrams) -> None:
    set_receive_buffer(udp, MB)
    packets = [b"%d" % number for number in range(BATCH + 10)]
    send(udp, *packets)
    first = datagrams.receive()
    assert len(first) == BATCH
    assert first + datagrams.receive() == packets


def test_short_datagram_after_a_long_one_has_no_rest_of_it(udp: socket.socket, datagrams: Datagrams) -> None:
    send(udp, b"long" * 100)
    datagrams.receive()
    send(udp, b"short")
    assert datagrams.receive() == [b"short"]


def test_error_of_the_socket_is_raised(udp: socket.socket, datagrams: Datagrams) -> None:
    udp.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        datagrams.receive()


def test_every_datagram_is_either_received_or_counted_as_dropped(udp: socket.socket) -> None:
    set_receive_buffer(udp, 4096)
    datagrams, drops = Datagrams(udp), KernelDrops(udp)
    send(udp, *[b"x" * 100] * 500)
    received = len(datagrams.receive())
    assert 0 < received < 500
    assert received + drops.new() == 500
    assert drops.new() == 0


def test_kernel_reports_the_buffer_that_it_gives(udp: socket.socket) -> None:
    assert 0 < set_receive_buffer(udp, 65_536) <= DATAGRAM_BYTES_MAX
