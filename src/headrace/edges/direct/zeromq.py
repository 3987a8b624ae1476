"""The sockets of ZeroMQ: SUB and PULL in, PUB and PUSH out.

PUB and SUB drop silently when a queue of theirs is full: only the numbers show it. PUSH waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Literal

import zmq
from zmq.utils.monitor import parse_monitor_message

from headrace.edges.direct.packing import PackingBounds
from headrace.edges.direct.settings import MESSAGE_BYTES_MAX, PACKET_BYTES, QUEUE_MESSAGES
from headrace.edges.direct.transport import BATCH, BATCH_BYTES, Frames
from headrace.edges.errors import BadEdge

RECONNECT_S = 1.0
"""Between two connections to a publisher that is unavailable, or sends what is too large."""

LINGER_MS = 1_000
"""How long a socket that is closed sends what is in its queues."""

Pattern = Literal["pubsub", "pipeline"]
"""pubsub: every subscriber gets every message; pipeline: each message goes to one of them."""


class ZeroMQSource:
    def __init__(self, addresses: Sequence[str], *, pattern: Pattern = "pubsub", prefix: str = "") -> None:
        self.address = ", ".join(addresses)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB if pattern == "pubsub" else zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, QUEUE_MESSAGES)
        # A peer that sends a larger one is disconnected: it can't fill the memory.
        self._socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._addresses = {*addresses}
        self._lost: set[str] = set()
        self._reconnect_s = 0.0
        if pattern == "pubsub":
            self._socket.setsockopt(zmq.SUBSCRIBE, prefix.encode())
        for address in addresses:
            try:
                self._socket.connect(address)
            except zmq.ZMQError as error:
                self.close()
                raise BadEdge(
                    f"can't connect to {address}: {error.strerror}",
                    hint="write tcp://HOST:PORT or ipc://PATH",
                ) from error

    def _reconnect(self) -> None:
        """ZeroMQ itself gives a connection up for good after a message that is too large."""
        while self._monitor.poll(0):
            event = parse_monitor_message(self._monitor.recv_multipart())
            endpoint = event["endpoint"].decode()
            # A host with a name has another endpoint.
            self._lost |= {endpoint} if endpoint in self._addresses else self._addresses
        if self._lost and time.monotonic() >= self._reconnect_s:
            self._reconnect_s = time.monotonic() + RECONNECT_S
            for endpoint in self._lost:
                with contextlib.suppress(zmq.ZMQError):  # it is not connected
                    self._socket.disconnect(endpoint)
                self._socket.connect(endpoint)
            self._lost.clear()

    def receive(self, wait_s: float) -> Sequence[Frames]:
        self._reconnect()
        if not self._socket.poll(int(wait_s * 1000)):
            return []
        found: list[Frames] = []
        size = 0
        try:
            while len(found) < BATCH and size < BATCH_BYTES:
                found.append(tuple(self._socket.recv_multipart(zmq.NOBLOCK)))
                size += sum(map(len, found[-1]))
        except zmq.Again:
            pass
        return found

    def dropped(self) -> int:
        """ZeroMQ counts nothing."""
        return 0

    def close(self) -> None:
        self._socket.disable_monitor()
        self._monitor.close()
        self._socket.close()
        self._context.term()


class ZeroMQSink:
    """`subject` is the first frame of each message, by which subscribers choose; None: messages have none."""

    def __init__(
        self, address: str, *, subject: str | None, pattern: Pattern = "pubsub", waits: bool = False
    ) -> None:
        self.bounds = PackingBounds(packet_bytes=PACKET_BYTES, packet_bytes_max=MESSAGE_BYTES_MAX)
        self._subject = () if subject is None else (subject.encode(),)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB if pattern == "pubsub" else zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, QUEUE_MESSAGES)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        if pattern == "pubsub" and waits:
            self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise BadEdge(
                f"can't listen on {address}: {error.strerror}", hint="choose another address with --bind"
            ) from error
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def send(self, frames: Frames) -> bool:
        try:
            self._socket.send_multipart([*self._subject, *frames], zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
        self._context.term()
