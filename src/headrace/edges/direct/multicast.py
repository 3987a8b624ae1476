"""UDP multicast over IPv4: groups, the sockets that receive them, and the one that sends to a group."""

from __future__ import annotations

import errno
import ipaddress
import selectors
import socket
import struct
import sys
from collections.abc import Sequence

from headrace.edges.datagrams import Datagrams, KernelDrops, set_receive_buffer
from headrace.edges.direct.packing import PackingBounds
from headrace.edges.direct.settings import DATAGRAM_BYTES_MAX
from headrace.edges.direct.transport import Frames
from headrace.edges.errors import BadEdge
from headrace.kafka.settings import parse_address

RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024
"""Of the kernel: it holds what arrives while a batch is handed over, and while a gap is read from the log."""

_IP_MULTICAST_ALL = 49
"""On Linux, a socket gets by default what any socket of the machine has joined."""

_BUSY = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})
"""The network takes nothing now."""

Address = tuple[str, int]


def parse_group(text: str) -> Address:
    """GROUP:PORT, of a multicast group."""
    host, port = parse_address(text)
    try:
        group = ipaddress.ip_address(host)
    except ValueError as error:
        raise BadEdge(f"{host} is not an address of a group", hint="write 239.1.1.1:5007") from error
    if group.version != 4 or not group.is_multicast:
        raise BadEdge(
            f"{host} is not a multicast group of IPv4",
            hint="groups are 224.0.0.0 to 239.255.255.255; those of your own network begin with 239",
        )
    if port == 0:
        raise BadEdge(f"{text} has no port", hint="publisher and receivers use the same port, such as 5007")
    return host, port


def check_interface(interface: str, *, is_open: bool) -> str:
    """The address of a network interface. `is_open` allows one that other machines reach."""
    try:
        address = ipaddress.IPv4Address(interface)
    except ValueError as error:
        raise BadEdge(
            f"{interface} is not an address of an interface", hint="write the IPv4 address that it has here"
        ) from error
    if not is_open and not address.is_loopback:
        raise BadEdge(
            f"{interface} is not a loopback address: other machines could read the feed, or write to it",
            hint="use 127.0.0.1, or allow it with --insecure",
        )
    return interface


class MulticastSource:
    """Receives groups on one interface: several if the same feed is sent to each, as feeds A and B."""

    def __init__(self, groups: Sequence[Address], interface: str) -> None:
        self.address = ", ".join(f"{group}:{port}" for group, port in groups)
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._datagrams: dict[object, Datagrams] = {}
        self._drops: list[KernelDrops] = []
        self.receive_buffer_bytes = RECEIVE_BUFFER_BYTES
        for group in groups:
            joined = _join(group, interface)
            self._sockets.append(joined)
            got_bytes = set_receive_buffer(joined, RECEIVE_BUFFER_BYTES)
            self.receive_buffer_bytes = min(self.receive_buffer_bytes, got_bytes)
            self._datagrams[joined] = Datagrams(joined)
            self._drops.append(KernelDrops(joined))
            self._selector.register(joined, selectors.EVENT_READ)

    def receive(self, wait_s: float) -> Sequence[Frames]:
        found: list[Frames] = []
        for key, _ in self._selector.select(wait_s):
            found += [(data,) for data in self._datagrams[key.fileobj].receive()]
        return found

    def dropped(self) -> int:
        return sum(each.new() for each in self._drops)

    def close(self) -> None:
        self._selector.close()
        for each in self._sockets:
            each.close()


def _join(group: Address, interface: str) -> socket.socket:
    joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        # Several receivers of one machine each get all datagrams.
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT") and sys.platform == "darwin":
            joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Bound to the group, it gets nothing that is sent to this machine alone.
        joined.bind(("" if sys.platform == "win32" else group[0], group[1]))
        if sys.platform == "linux":
            joined.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        membership = struct.pack("4s4s", socket.inet_aton(group[0]), socket.inet_aton(interface))
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        joined.close()
        raise BadEdge(
            f"can't join {group[0]}:{group[1]} on {interface}: {error.strerror}",
            hint="--interface is the IPv4 address of an interface of this machine",
        ) from error
    return joined


class MulticastSink:
    """Sends to one group or several: each gets every datagram, as feeds A and B."""

    def __init__(self, groups: Sequence[Address], interface: str, *, ttl: int, datagram_bytes: int) -> None:
        self.address = ", ".join(f"{group}:{port}" for group, port in groups)
        self.bounds = PackingBounds(packet_bytes=datagram_bytes, packet_bytes_max=DATAGRAM_BYTES_MAX)
        self._groups = [*groups]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            # Receivers on this machine get the feed, too.
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        except OSError as error:
            self._socket.close()
            raise BadEdge(
                f"can't send on {interface}: {error.strerror}",
                hint="--interface is the IPv4 address of an interface of this machine",
            ) from error

    def send(self, frames: Frames) -> bool:
        try:
            for group in self._groups:
                self._socket.sendto(frames[-1], group)
        except OSError as error:
            if error.errno not in _BUSY:
                raise BadEdge(f"can't send to {self.address}: {error.strerror}") from error
            return False
        return True

    def close(self) -> None:
        self._socket.close()
