"""The sockets of nng, the successor of nanomsg: Sub0 in, Pub0 out.

Both drop silently when a queue of theirs is full: only the numbers show it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pynng

from headrace.edges.direct.packing import PackingBounds
from headrace.edges.direct.settings import MESSAGE_BYTES_MAX, PACKET_BYTES, QUEUE_MESSAGES
from headrace.edges.direct.transport import BATCH, BATCH_BYTES, Frames
from headrace.edges.errors import BadEdge


class NngSource:
    def __init__(self, addresses: Sequence[str], *, prefix: str = "") -> None:
        self.address = ", ".join(addresses)
        self._socket = pynng.Sub0(
            topics=[prefix.encode()],
            recv_buffer_size=QUEUE_MESSAGES,
            # A peer that sends a larger one is disconnected: it can't fill the memory.
            recv_max_size=MESSAGE_BYTES_MAX,
        )
        for address in addresses:
            try:
                self._socket.dial(address, block=False)
            except pynng.NNGException as error:
                self.close()
                raise BadEdge(
                    f"can't connect to {address}: {error}", hint="write tcp://HOST:PORT or ipc://PATH"
                ) from error

    def receive(self, wait_s: float) -> Sequence[Frames]:
        found: list[Frames] = []
        try:
            if wait_s > 0:
                self._socket.recv_timeout = max(int(wait_s * 1000), 1)
                found.append((self._socket.recv(),))
            size = 0
            while len(found) < BATCH and size < BATCH_BYTES:
                found.append((self._socket.recv(block=False),))
                size += len(found[-1][0])
        except (pynng.Timeout, pynng.TryAgain):
            pass
        return found

    def dropped(self) -> int:
        """nng counts nothing."""
        return 0

    def close(self) -> None:
        self._socket.close()


class NngSink:
    def __init__(self, address: str) -> None:
        self.bounds = PackingBounds(packet_bytes=PACKET_BYTES, packet_bytes_max=MESSAGE_BYTES_MAX)
        self._socket = pynng.Pub0(send_buffer_size=QUEUE_MESSAGES)
        try:
            listener = self._socket.listen(address)
        except pynng.NNGException as error:
            self._socket.close()
            raise BadEdge(
                f"can't listen on {address}: {error}", hint="choose another address with --bind"
            ) from error
        self.address = f"tcp://{listener.local_address}" if address.startswith("tcp://") else address

    def send(self, frames: Frames) -> bool:
        self._socket.send(frames[-1])
        return True

    def close(self) -> None:
        self._socket.close()
