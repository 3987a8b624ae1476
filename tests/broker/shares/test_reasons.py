"""Reasons of rejections: read from their topic, and bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.internal_topics import REASONS_TOPIC
from headrace.broker.parts import Parts
from headrace.broker.shares import reasons
from headrace.broker.shares.reasons import REASON_BYTES_MAX, Reasons, reason_key
from headrace.records.record import Record, encode_batch
from tests.broker.requests import NOW_MS
from tests.broker.state_topics import parts_in


def give(parts: Parts, *given: tuple[str, bytes]) -> None:
    topic = parts.topics.get(REASONS_TOPIC) or parts.topics.internal(REASONS_TOPIC)
    records = [
        Record(offset=index, timestamp_ms=NOW_MS, key=key.encode(), value=reason)
        for index, (key, reason) in enumerate(given)
    ]
    topic.partitions[0].append(encode_batch(records), now_ms=NOW_MS)


def test_reason_is_found_until_its_letter_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            known = Reasons(parts.runtime, parts.topics)
            await known.read_on()
            key, other = reason_key("g", "t", 0, 7), reason_key("g", "t", 0, 8)
            give(parts, (key, b"first"))
            assert known.get(key) is None
            await known.read_on()
            give(parts, (key, b"second"), (other, b"\xff" + bytes(REASON_BYTES_MAX)))
            await known.read_on()
            assert known.get(key) == "second"
            assert known.get(other) == "\N{REPLACEMENT CHARACTER}" + "\0" * (REASON_BYTES_MAX - 1)
            known.forget(key)
            await known.read_on()
            assert known.get(key) is None

    asyncio.run(scenario())


@pytest.mark.parametrize(("bound", "limit"), [("REASONS_MAX", 2), ("REASONS_CHARS_MAX", 2 * len("key 0why"))])
def test_oldest_reasons_are_dropped_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, limit: int
) -> None:
    monkeypatch.setattr(reasons, bound, limit)

    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            known = Reasons(parts.runtime, parts.topics)
            give(parts, *((f"key {number}", b"why") for number in range(4)))
            await known.read_on()
            assert [known.get(f"key {number}") for number in range(4)] == [None, None, "why", "why"]

    asyncio.run(scenario())
