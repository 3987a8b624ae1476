"""Datagrams of a UDP socket, many with one system call, and how many of them the kernel has dropped.

Linux has recvmmsg, which Python does not offer: it is called through ctypes. Elsewhere datagrams are received one by
one, and the drops of the kernel are unknown.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys

DATAGRAM_BYTES_MAX = 65_536
"""No datagram is longer. Memory that none of them reaches is never touched, so short ones need little."""

BATCH = 256
"""A quarter of a millisecond of work, so that the buffer of the kernel is emptied often."""

_IS_LINUX = sys.platform.startswith("linux")
_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("9I")
"""Of the memory of a socket. The last number is its count of dropped datagrams, the one of /proc/net/udp."""
_COUNTER = 2**32


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


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
    _fields_ = (("header", _Header), ("received_bytes", ctypes.c_uint32))


class Datagrams:
    """Receives the datagrams of a bound socket, without waiting."""

    def __init__(self, udp: socket.socket) -> None:
        self._socket = udp
        udp.setblocking(False)
        self._recvmmsg = getattr(ctypes.CDLL(None, use_errno=True), "recvmmsg", None) if _IS_LINUX else None
        if self._recvmmsg is not None:
            self._prepare()

    def _prepare(self) -> None:
        self._memory = bytearray(BATCH * DATAGRAM_BYTES_MAX)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._vectors = (_Vector * BATCH)(
            *(_Vector(start + slot * DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX) for slot in range(BATCH))
        )
        self._messages = (_Message * BATCH)(
            *(_Message(_Header(vector=ctypes.pointer(each), vector_length=1)) for each in self._vectors)
        )
        words = memoryview(self._messages).cast("B").cast("I")
        stride = ctypes.sizeof(_Message) // words.itemsize
        first = _Message.received_bytes.offset // words.itemsize
        self._lengths = words[first::stride]

    def receive(self) -> list[bytes]:
        """Those that are there, `BATCH` at most."""
        if self._recvmmsg is None:
            return self._receive_each()
        count = self._recvmmsg(self._socket.fileno(), self._messages, BATCH, 0, None)
        if count < 0:
            number = ctypes.get_errno()
            if number in (errno.EAGAIN, errno.EINTR):
                return []
            raise OSError(number, os.strerror(number))
        memory = self._memory
        return [
            bytes(memory[start : start + length])
            for start, length in zip(
                range(0, count * DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX),
                self._lengths[:count].tolist(),
                strict=True,
            )
        ]

    def _receive_each(self) -> list[bytes]:
        found: list[bytes] = []
        try:
            while len(found) < BATCH:
                found.append(self._socket.recv(DATAGRAM_BYTES_MAX))
        except BlockingIOError:
            pass
        return found


class KernelDrops:
    """Counts the datagrams that the kernel has dropped because its buffer was full."""

    def __init__(self, udp: socket.socket) -> None:
        self._socket = udp
        self._seen = self._read()

    def _read(self) -> int:
        if not _IS_LINUX:
            return 0
        return int(
            _MEMINFO.unpack(self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1]
        )

    def new(self) -> int:
        """How many since the last call. The counter of the kernel has 32 bits."""
        seen, self._seen = self._seen, self._read()
        return (self._seen - seen) % _COUNTER


def set_receive_buffer(udp: socket.socket, wanted_bytes: int) -> int:
    """Ask the kernel for a buffer; the size that it has given. Without privileges net.core.rmem_max bounds it."""
    try:
        udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE if _IS_LINUX else socket.SO_RCVBUF, wanted_bytes)
    except PermissionError:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted_bytes)
    got_bytes = udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    # Linux reports twice the size: half of it is for its own structures.
    return got_bytes // 2 if _IS_LINUX else got_bytes
