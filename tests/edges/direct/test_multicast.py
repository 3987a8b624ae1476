from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.direct.multicast import MulticastSink, MulticastSource, check_interface, parse_group
from headrace.edges.errors import BadEdge
from headrace.errors import HeadraceError
from tests.edges.direct.conftest import free_group

LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:5007",
        "10.0.0.1:5007",
        "240.0.0.1:5007",
        "[ff02::1]:5007",
        "quotes:5007",
        "239.1.1.1:0",
        "239.1.1.1",
    ],
)
def test_address_outside_the_multicast_range_is_rejected_with_the_remedy(text: str) -> None:
    with pytest.raises(HeadraceError) as error:
        parse_group(text)
    assert error.value.hint


def test_groups_of_ipv4_are_accepted() -> None:
    assert parse_group("239.1.1.1:5007") == ("239.1.1.1", 5007)
    assert parse_group("224.0.1.9:1") == ("224.0.1.9", 1)


def test_interface_that_other_machines_reach_must_be_allowed() -> None:
    assert check_interface("127.0.0.1", is_open=False) == "127.0.0.1"
    for each in ("0.0.0.0", "10.0.0.7"):
        with pytest.raises(BadEdge, match="not a loopback address"):
            check_interface(each, is_open=False)
        assert check_interface(each, is_open=True) == each
    with pytest.raises(BadEdge, match="not an address"):
        check_interface("eth0", is_open=True)


def test_interface_that_this_machine_does_not_have_is_an_error() -> None:
    with pytest.raises(BadEdge, match="can't join"):
        MulticastSource([free_group()], "192.0.2.1")


def test_datagrams_do_not_leave_the_network_segment_by_default() -> None:
    with contextlib.closing(MulticastSink([free_group()], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink:
        assert sink._socket.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 1


def test_two_receivers_of_one_machine_each_get_every_datagram() -> None:
    group = free_group()
    with (
        contextlib.closing(MulticastSource([group], LOOPBACK)) as first,
        contextlib.closing(MulticastSource([group], LOOPBACK)) as second,
        contextlib.closing(MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
    ):
        sink.send((b"one",))
        assert list(first.receive(5)) == list(second.receive(5)) == [(b"one",)]


def test_feeds_a_and_b_are_one_source() -> None:
    feeds = [free_group(), free_group()]
    with (
        contextlib.closing(MulticastSource(feeds, LOOPBACK)) as source,
        contextlib.closing(MulticastSink(feeds, LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
    ):
        sink.send((b"one",))
        found: list[tuple[bytes, ...]] = []
        while len(found) < 2:
            found += source.receive(5) or pytest.fail("a datagram is missing")
        assert found == [(b"one",), (b"one",)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows binds no group")
def test_datagram_that_is_not_sent_to_the_group_is_not_received() -> None:
    group = free_group()
    with (
        contextlib.closing(MulticastSource([group], LOOPBACK)) as source,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        contextlib.closing(MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
    ):
        with contextlib.suppress(ConnectionRefusedError):
            sender.sendto(b"to the host", (LOOPBACK, group[1]))
        sink.send((b"to the group",))
        assert list(source.receive(5)) == [(b"to the group",)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what it drops")
def test_what_the_kernel_drops_is_counted() -> None:
    group = free_group()
    with (
        contextlib.closing(MulticastSource([group], LOOPBACK)) as source,
        contextlib.closing(MulticastSink([group], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
    ):
        datagram = b"." * 60_000
        sent = 2 * source.receive_buffer_bytes // len(datagram) + 10
        for _ in range(sent):
            assert sink.send((datagram,))
        arrived = 0
        while found := source.receive(0):
            arrived += len(found)
        dropped = source.dropped()
        assert dropped > 0
        assert arrived + dropped == sent
        assert source.dropped() == 0


def test_message_beyond_the_largest_datagram_is_an_error() -> None:
    with (
        contextlib.closing(MulticastSink([free_group()], LOOPBACK, ttl=1, datagram_bytes=1_400)) as sink,
        pytest.raises(BadEdge, match="can't send"),
    ):
        sink.send((b"." * 70_000,))


@given(st.one_of(st.text(), st.from_regex(r"2[0-9]{2}\.[0-9]{1,3}\.0\.1:[0-9]{1,6}", fullmatch=True)))
def test_any_text_is_a_group_or_an_error(text: str) -> None:
    with contextlib.suppress(HeadraceError):
        host, port = parse_group(text)
        assert ipaddress.IPv4Address(host).is_multicast
        assert 0 < port < 65_536
