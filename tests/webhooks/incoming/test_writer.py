"""What became of an event, and what an earlier run has left on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.clock import SystemClock
from headrace.edges.event import Event
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from headrace.webhooks.incoming.event_of import event_of, identity_of
from headrace.webhooks.incoming.writer import EventWriter, Result, Written
from tests.webhooks.conftest import events_in
from tests.webhooks.incoming.receiving import NOWHERE
from tests.webhooks.incoming.sending import signed, source


def writer(cluster: Cluster, **edge: object) -> EventWriter:
    settings = EdgeSettings(**edge)  # type: ignore[arg-type]
    return EventWriter(cluster, settings, clock=SystemClock(), on_problem=lambda _text: None)


def written(by: EventWriter, *events: Event) -> list[Written]:
    async def write() -> list[Written]:
        return [await by.write(each) for each in events]

    return asyncio.run(write())


def test_event_is_delivered_or_the_broker_says_why_not(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.alter_configs("topic", topic, {"max.message.bytes": "2000"})
    to_broker = writer(cluster, data_dir=tmp_path)
    good, bad = written(to_broker, Event(topic=topic, value=b"x"), Event(topic=topic, value=b"x" * 100_000))
    to_broker.close()
    assert (good.result, bad.result) == (Result.DELIVERED, Result.REJECTED)
    assert good.is_kept
    assert not bad.is_kept
    assert "large" in bad.why
    assert [value for value, _headers in events_in(cluster, topic)] == [b"x"]


def test_event_that_an_earlier_run_left_is_known_by_its_source_once(tmp_path: Path) -> None:
    by = source()
    request = signed(by)
    event = event_of(by, request, identity_of(by, request))
    first = writer(NOWHERE, data_dir=tmp_path, overload="buffer", stop_s=0)
    assert [each.result for each in written(first, event)] == [Result.BUFFERED]
    assert first.take_left("sample") == []
    first.close()
    second = writer(NOWHERE, data_dir=tmp_path, overload="buffer", stop_s=0)
    (left,) = second.take_left("sample")
    assert set(left.keys) >= set(identity_of(by, request).keys)
    assert second.take_left("sample") == []
    second.close()


def test_full_memory_has_no_room(tmp_path: Path) -> None:
    async def fill() -> list[Written]:
        """The broker is unavailable: what is taken waits until the end."""
        full = writer(
            NOWHERE, data_dir=tmp_path, memory_bytes_max=1 << 20, in_flight_bytes_max=1 << 20, stop_s=0
        )
        tasks = [asyncio.create_task(full.write(Event(topic="t", value=b"x" * 200_000))) for _ in range(30)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(full.close)
        return list(await asyncio.gather(*tasks))

    results = {each.result for each in asyncio.run(fill())}
    assert results == {Result.NO_ROOM, Result.STOPPED}


def test_nothing_is_opened_before_the_first_event(tmp_path: Path) -> None:
    writer(NOWHERE, data_dir=tmp_path, overload="buffer").close()
    assert list(tmp_path.iterdir()) == []
