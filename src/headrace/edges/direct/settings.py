"""Bounds and times of numbered feeds."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.edges.direct.gaps import ReorderBounds

DATAGRAM_BYTES_MAX = 65_507
"""Of UDP over IPv4."""
BOUNDS = ReorderBounds()
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""Of ZeroMQ and nng: a topic takes records of 1 MB by default."""
PACKET_BYTES = 16 * 1024
"""Packets of ZeroMQ and nng are filled up to this size: larger ones are hardly faster."""
QUEUE_MESSAGES = 4_096
"""Of ZeroMQ and nng, for each connection and on either side: 64 MB of full packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    name: str
    """of the edge: in its own events, in metrics and dead letters"""
    topic: str
    loss_topic: str
    """one event for each interval: what was received, and what was lost"""
    interval_ms: int = 10_000
    bounds: ReorderBounds = BOUNDS
    streams_max: int = 1_000
    """A stream costs a position and the packets that are held. Packets of others are counted as garbage."""
    held_bytes_max: int = 64 * 1024 * 1024
    """of packets of all streams that wait for those before them; beyond it, gaps are declared at once"""
    stream_idle_ms: int = 600_000
    """A stream that is idle for so long makes room for another one, if there are too many."""
    letters_max: int = 10
    """dead letters of an interval: the first show what is wrong, all others are counted"""
    letter_bytes_max: int = 1_000
    """of a packet in a dead letter"""
    tail_records: int = 5_000
    """Read from each partition of the topic at the start: what was in flight when the last run was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    topic: str
    group: str
    """its committed offsets are the positions of the publisher"""
    from_beginning: bool = False
    """where a group without committed offsets starts"""
    heartbeat_ms: int = 500
    """how long after the last packet an idle stream sends its next number: a loss at the end is found after that"""
    commit_ms: int = 1_000
    """After a crash, so much is sent twice: receivers drop it by its numbers."""
    records_at_once: int = 500
