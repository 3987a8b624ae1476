"""Offsets of topics in Spark's notation: `{"clicks":{"0":17}}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

Offsets = Mapping[str, Mapping[int, int]]
"""Topic, partition, offset."""

# Spark's notation, in place of an offset.
LATEST = -1
EARLIEST = -2

HEARTBEAT_OFFSET = "headrace.idle_us"
"""The name of the offset of a source of heartbeats (`heartbeats`)."""


class Span(Struct, frozen=True, kw_only=True):
    """A range of offsets, without its ends. Both name the same partitions."""

    starts: Offsets
    ends: Offsets

    def options(self) -> dict[str, str]:
        """Options of Spark's Kafka source for a bounded read."""
        partitions = {topic: sorted(offsets) for topic, offsets in self.ends.items()}
        return {
            "assign": json.dumps(partitions),
            "startingOffsets": offsets_text(self.starts),
            "endingOffsets": offsets_text(self.ends),
        }


def offsets_text(offsets: Offsets) -> str:
    return json.dumps({topic: {str(p): o for p, o in sorted(of.items())} for topic, of in offsets.items()})


def offsets_of(found: Any) -> dict[str, dict[int, int]]:
    """The offsets of a Kafka source; empty for an offset of any other source. Takes the JSON or its text."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in _parsed(found).items()
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def smallest_offsets(texts: Iterable[str]) -> dict[str, dict[int, int]]:
    """The offsets of all sources of a query. If several sources read a partition, the smallest offset."""
    smallest: dict[str, dict[int, int]] = {}
    for text in texts:
        for topic, offsets in offsets_of(text).items():
            known = smallest.setdefault(topic, {})
            for partition, offset in offsets.items():
                known[partition] = min(offset, known.get(partition, offset))
    return smallest


def is_heartbeat(found: Any) -> bool:
    """Whether the offset is one of a source of heartbeats, which has no records."""
    return HEARTBEAT_OFFSET in _parsed(found)


def _parsed(found: Any) -> Mapping[str, Any]:
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    return found if isinstance(found, Mapping) else {}


def span_of_batch(start: str | None, end: str) -> Span:
    """The range that a micro-batch read from a source, by the texts of Spark's offset log.

    A partition that is new in the batch was read from its earliest offset.
    """
    starts, ends = offsets_of(start), offsets_of(end)
    return Span(
        starts={
            topic: {partition: starts.get(topic, {}).get(partition, EARLIEST) for partition in offsets}
            for topic, offsets in ends.items()
        },
        ends=ends,
    )
