"""What a StatsD listener is told, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.edges.statsd.series import Bounds

BOUNDS = Bounds(
    series_max=100_000,
    values_max=10_000,
    metrics_exact_max=4_000_000,
    members_max=1_000_000,
    line_bytes_max=8_192,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsdSettings:
    name: str
    """of the edge: in its own events, in metrics and dead letters"""
    topic: str
    flush_ms: int
    """length of a window"""
    receive_buffer_bytes: int = 16 * 1024 * 1024
    """of the kernel: it holds what arrives while a batch is parsed, some 800 bytes for a short datagram"""
    connections_max: int = 256
    """over TCP; a connection costs its buffer"""
    letters_max: int = 10
    """dead letters of a window: the first show what is wrong, all others are counted"""
    letter_bytes_max: int = 1_000
    """of a line in a dead letter"""
    bounds: Bounds = BOUNDS
