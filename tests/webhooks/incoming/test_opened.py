"""What a running process knows of a source, and what it keeps when the definition changes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.dead_letters import dead_letter_topic
from headrace.edges.event import Event
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.webhooks.incoming.history import Accepted
from headrace.webhooks.incoming.opened import OpenedSource
from tests.webhooks.incoming.receiving import NOWHERE
from tests.webhooks.incoming.sending import NOW_MS, source


def complete() -> OpenedSource:
    opened = OpenedSource(source(), now_s=0)
    opened.add_history([Accepted(NOW_MS, (b"a",))])
    opened.is_complete = True
    return opened


def test_source_is_not_complete_before_its_history_was_read() -> None:
    assert not OpenedSource(source(), now_s=0).is_complete


@pytest.mark.parametrize(
    ("fields", "is_complete"),
    [
        ({"rate_per_s_max": 5}, True),
        ({"window_s": 3_600}, True),
        ({"window_s": 2 * 86_400}, False),
        ({"topic": "other"}, False),
    ],
)
def test_changed_source_keeps_what_it_knows_and_reads_what_it_may_miss(
    fields: dict[str, object], is_complete: bool
) -> None:
    before = complete()
    after = OpenedSource(replace(before.source, **fields), now_s=0, before=before)
    assert after.recent.has_any([b"a"], NOW_MS)
    assert after.is_complete is is_complete


def test_event_that_is_written_during_a_change_is_known_after_it() -> None:
    before = complete()
    after = OpenedSource(replace(before.source, rate_per_s_max=5), now_s=0, before=before)
    before.recent.add([b"b"], NOW_MS)
    assert after.recent.has_any([b"b"], NOW_MS)


def test_reading_creates_the_topics_and_knows_the_largest_event(cluster: Cluster, topic: str) -> None:
    opened = OpenedSource(source(topic=f"{topic}-new"), now_s=0)
    assert opened.read(cluster, NOW_MS) == []
    assert {opened.source.topic, dead_letter_topic(opened.source.topic)} <= set(cluster.topics())
    assert cluster.configs("topic", dead_letter_topic(opened.source.topic))["retention.ms"].value == "-1"
    cluster.alter_configs("topic", opened.source.topic, {"max.message.bytes": "2000"})
    opened.read_limit(cluster)
    assert opened.fits(Event(topic="t", value=b"x" * 1_500))
    assert not opened.fits(Event(topic="t", value=b"x" * 2_000))


def test_unavailable_broker_is_an_error() -> None:
    with pytest.raises(RequestFailed):
        OpenedSource(source(), now_s=0).read(NOWHERE, NOW_MS)
