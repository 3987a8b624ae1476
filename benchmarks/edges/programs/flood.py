"""Sends StatsD packets to a UDP port of this machine at a steady rate, and says whether all of them were received.

Packets are sent with sendmmsg, in bursts: a sender in Python would be slower than what it measures. Half of them are
counters, the others timers with all kinds of values and a few gauges; one metric each, as clients without a buffer
send.
"""

from __future__ import annotations

import ctypes
import random
import socket
import time
from pathlib import Path
from typing import NamedTuple

BURST = 32
KINDS = 16_384
SETTLE_S = 0.05
"""After the last packet: a receiver that keeps up has emptied its buffer."""


class Socket(NamedTuple):
    """A row of /proc/net/udp."""

    waiting_bytes: int
    drops: int


def socket_at(port: int) -> Socket:
    for row in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = row.split()
        if int(fields[1].partition(":")[2], 16) == port:
            return Socket(waiting_bytes=int(fields[4].partition(":")[2], 16), drops=int(fields[-1]))
    raise ProcessLookupError(f"nobody listens on UDP port {port}")


def packets(count: int) -> list[bytes]:
    chosen = random.Random(1)
    found = []
    for number in range(count):
        name = chosen.randrange(100)
        if number % 2:
            found.append(b"shop.page_views.%d:1|c" % name)
        elif number % 10:
            found.append(b"shop.response_time.%d:%d|ms|#env:prod" % (name, chosen.randrange(20_000)))
        else:
            found.append(b"shop.queue_length.%d:%d|g" % (name, chosen.randrange(1_000)))
    return found


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vector", ctypes.POINTER(_Vector)),
        ("vector_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    _fields_ = (("header", _Header), ("sent_bytes", ctypes.c_uint32))


class Flood:
    """A sender to one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._packets = packets(KINDS)
        self._vectors = (_Vector * KINDS)(*(_Vector(each, len(each)) for each in self._packets))
        self._messages = (_Message * KINDS)(
            *(_Message(_Header(vector=ctypes.pointer(each), vector_length=1)) for each in self._vectors)
        )
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg

    def is_received(self, packets_per_s: int, seconds: float) -> bool:
        """Whether all packets of a flood at this rate were received, and none still waits afterwards."""
        before = socket_at(self._port).drops
        if not self._send(packets_per_s, int(packets_per_s * seconds)):
            return False
        time.sleep(SETTLE_S)
        after = socket_at(self._port)
        return after.drops == before and after.waiting_bytes == 0

    def _send(self, packets_per_s: int, count: int) -> bool:
        """Whether the sender kept the rate itself."""
        fd, started_s = self._socket.fileno(), time.perf_counter()
        for sent in range(0, count, BURST):
            while time.perf_counter() - started_s < sent / packets_per_s:
                pass
            first = ctypes.byref(self._messages[sent % KINDS])
            assert self._sendmmsg(fd, first, BURST, 0) == BURST
        return time.perf_counter() - started_s < 1.05 * count / packets_per_s

    def highest_rate(self, *, seconds: float, least: int, most: int, steps: int) -> int:
        """The highest rate that is received without a loss, by bisection; 0 if even the least one is not."""
        if not self.is_received(least, seconds):
            return 0
        low, high = least, most
        for _ in range(steps):
            middle = (low + high) // 2
            if self.is_received(middle, seconds):
                low = middle
            else:
                high = middle
        return low
