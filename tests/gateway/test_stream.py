from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from headrace.gateway.event_ids import EventId
from headrace.gateway.feed import Kept
from headrace.gateway.log_reader import Gap, Offsets
from headrace.gateway.records import Format, Record
from headrace.gateway.stream import Stream, json_with
from headrace.gateway.subscription import Subscription, Taken
from headrace.gateway.web_sockets import WEB_SOCKET


class Scripted:
    """What a subscription gives, call by call."""

    def __init__(self, offsets: Offsets, *calls: list[Taken]) -> None:
        self.offsets = offsets
        self.gaps: list[Gap] = []
        self.is_closed = False
        self._calls = [*calls]

    async def next(self, *, wait_s: float) -> list[Taken]:
        return self._calls.pop(0)


def record(offset: int, *, topic: str = "t", key: bytes | None = None) -> Record:
    return Record(
        topic=topic, partition=0, offset=offset, timestamp_ms=offset * 10, key=key, value=b"1", headers=[]
    )


def stream(script: Scripted, key: bytes | None = None) -> Stream:
    return Stream(cast("Subscription", script), WEB_SOCKET, cluster="c", format=Format.JSON, key=key)


def messages(found: Stream, *, wait_s: float = 3600.0) -> list[dict[str, Any]]:
    return [json.loads(each) for each in asyncio.run(found.next(wait_s=wait_s))]


def test_id_is_the_position_after_each_event_in_all_topics() -> None:
    script = Scripted(
        {"t": {0: 5}, "u": {0: 7}}, [(record(5), None), (record(6), None)], [(record(7, topic="u"), None)]
    )
    found = stream(script)
    ids = [EventId.from_text(each["id"]) for _ in range(2) for each in messages(found)]
    assert [each.offsets for each in ids] == [
        {"t": {0: 6}, "u": {0: 7}},
        {"t": {0: 7}, "u": {0: 7}},
        {"t": {0: 7}, "u": {0: 8}},
    ]
    assert [each.time_ms for each in ids] == [50, 60, 70]


def test_event_is_made_once_for_all_streams_at_the_same_position() -> None:
    kept = Kept(record(5), {})
    for _ in range(2):
        assert len(messages(stream(Scripted({"t": {0: 5}}, [(kept.record, kept)])))) == 1
    assert len(kept.events) == 1
    several = Scripted({"t": {0: 5}, "u": {0: 0}}, [(kept.record, kept)])
    assert EventId.from_text(messages(stream(several))[0]["id"]).offsets["u"] == {0: 0}


def test_records_with_other_keys_move_the_position_only() -> None:
    script = Scripted({"t": {0: 0}}, [(record(0, key=b"a"), None), (record(1, key=b"b"), None)], [])
    found = stream(script, key=b"a")
    assert [each["offset"] for each in messages(found)] == [0]
    (heartbeat,) = messages(found, wait_s=0)
    assert EventId.from_text(heartbeat["id"]).offsets == {"t": {0: 2}}


def test_gap_is_an_event_of_its_own_after_which_a_client_resumes() -> None:
    script = Scripted({"t": {0: 0}}, [])
    script.gaps.append(Gap(topic="t", partition=0, first=0, next=9))
    (gap,) = messages(stream(script))
    assert (gap["gap"]["next"], EventId.from_text(gap["id"]).offsets) == (9, {"t": {0: 9}})
    assert script.gaps == []


def test_field_is_added_to_json() -> None:
    assert json.loads(json_with("id", "x", b'{"a":1}')) == {"id": "x", "a": 1}
