from __future__ import annotations

from headrace.edges.event import OVERHEAD_BYTES, Entry, Event, Fate


def test_memory_of_an_event_counts_all_its_bytes() -> None:
    event = Event(topic="t", value=b"123", key=b"4", headers=(("ab", b"c"), ("d", None)))
    assert event.memory_bytes == OVERHEAD_BYTES + 3 + 1 + 3 + 1
    assert Event(topic="t", value=None).memory_bytes == OVERHEAD_BYTES


def test_fate_is_reported_with_the_number_of_the_event() -> None:
    seen: list[tuple[int, Fate, str]] = []
    entry = Entry(
        event=Event(topic="t", value=b""),
        memory_bytes=1,
        timestamp_ms=1,
        number=3,
        on_fate=lambda *fate: seen.append(fate),
    )
    entry.report(Fate.DROPPED, "newest")
    assert seen == [(3, Fate.DROPPED, "newest")]
    Entry(event=Event(topic="t", value=b""), memory_bytes=1, timestamp_ms=1).report(Fate.DELIVERED)
