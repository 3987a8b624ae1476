"""Windows of share groups with some work done, for tests of how they are stored."""

from __future__ import annotations

import uuid

from msgspec.structs import astuple

from headrace.broker.configs.share_rules import Rules
from headrace.broker.shares.storage import ShareKey, StoredWindow, StoredWindows
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, LogBatch, Window
from headrace.broker.state_topic import StateTopic, read_state

KEY = ShareKey("g", uuid.UUID(int=7), 3)


def read_windows(topic: StateTopic) -> dict[ShareKey, StoredWindow]:
    found = read_state(topic.partition.log, StoredWindows(), 1 << 20)
    return found.by_key


def work(window: Window, first: int) -> None:
    """Ten records: seven accepted, two released, one still held."""
    rules = Rules(locks_max=1_000_000)
    window.acquire([LogBatch(first, first + 9)], member_id="m", now_ms=0, rules=rules, records_max=500)
    for begin, end, kind in (
        (0, 3, AcknowledgeType.ACCEPT),
        (5, 6, AcknowledgeType.RELEASE),
        (7, 9, AcknowledgeType.ACCEPT),
    ):
        window.acknowledge(
            [Acknowledgement(first + begin, first + end, kind)], member_id="m", now_ms=0, rules=rules
        )


def contents(window: Window) -> tuple[int, list[tuple[int, int, int, int]]]:
    restored = Window.restored(window.start_offset, window.snapshot())
    return restored.start_offset, [astuple(span)[:4] for span in restored.spans]
