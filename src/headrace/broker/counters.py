"""Counts of Produce and Fetch since the start, for metrics."""

from __future__ import annotations


class Counters:
    def __init__(self) -> None:
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.missed_records = 0
        self.storage_failures = 0
