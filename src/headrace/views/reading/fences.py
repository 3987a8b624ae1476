"""The fence of a version, which its job writes in the transaction of each batch."""

from __future__ import annotations

from headrace.kafka.position import Position
from headrace.pipeline.fence import Fence

FENCES = "headrace_fences"
"""The table of the `Table` sink, in the database of the rows; its column `target` is the name of a version."""


def position_in(fence: str) -> Position:
    return Position.from_fence(Fence.from_json(fence).ends)
