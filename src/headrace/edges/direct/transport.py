"""What the sockets of direct messaging have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.edges.direct.packing import PackingBounds

Frames = tuple[bytes, ...]
"""A datagram or a message of nng has one frame, a message of ZeroMQ any number."""

BATCH = 256
"""Messages that are received at once, before their events are handed over."""
BATCH_BYTES = 16 * 1024 * 1024
"""As many datagrams of the largest size."""


class Source(Protocol):
    """Where messages come from."""

    address: str

    def receive(self, wait_s: float) -> Sequence[Frames]:
        """What is there, or what comes first within this time; a bounded number."""

    def dropped(self) -> int:
        """How many messages the kernel has dropped since the last call; 0 where it does not count."""

    def close(self) -> None: ...


class Sink(Protocol):
    """Where messages go to."""

    address: str
    bounds: PackingBounds

    def send(self, frames: Frames) -> bool:
        """Whether it was handed to the transport; if not, it may be sent again later. It waits a moment at most."""

    def close(self) -> None: ...
