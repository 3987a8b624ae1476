from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.errors import HeadraceError
from headrace.gateway.event_ids import EventId
from headrace.gateway.log_reader import Offsets
from headrace.gateway.starts import Starts
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import NewTopic, Write

pytestmark = pytest.mark.timeout(120)

NOW_MS = 1_700_000_000_000


class Clock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 0.0


def found(cluster: Cluster, work: Callable[[Starts, str], Awaitable[Offsets]]) -> Offsets:
    async def run() -> Offsets:
        topics = Topics(cluster, metadata_ms=10_000)
        return await work(Starts(topics, Clock(), resume_overlap_ms=5_000), await topics.cluster_id())

    return asyncio.run(run())


@pytest.fixture
def filled(new_topic: NewTopic, write: Write) -> str:
    topic = new_topic(2)
    for age_s in (7_200, 3_600, 4):
        write(topic, b"1", partition=0, timestamp=NOW_MS - age_s * 1_000)
    return topic


@pytest.mark.parametrize(
    ("start", "offset"),
    [("earliest", 0), ("latest", 3), ("1h", 1), ("90m", 1), (str(NOW_MS - 4_000), 2), ("1s", 3)],
)
def test_start_is_an_end_or_a_time(cluster: Cluster, filled: str, start: str, offset: int) -> None:
    assert found(cluster, lambda starts, _: starts.at([filled], start)) == {filled: {0: offset, 1: 0}}


def test_position_has_new_partitions_from_their_start(cluster: Cluster, filled: str) -> None:
    offsets = found(
        cluster, lambda starts, _: starts.at_position([filled], {filled: {0: 2}, "other": {0: 1}})
    )
    assert offsets == {filled: {0: 2, 1: 0}}


def test_id_resumes_exactly_here_and_by_its_time_elsewhere(cluster: Cluster, filled: str) -> None:
    def resumed(cluster_of_id: str | None, known: dict[str, dict[int, int]]) -> Offsets:
        return found(
            cluster,
            lambda starts, this: starts.resumed([filled], EventId(known, NOW_MS, cluster_of_id or this)),
        )

    assert resumed(None, {filled: {0: 1, 1: 0}}) == {filled: {0: 1, 1: 0}}
    assert resumed("another", {filled: {0: 1, 1: 0}}) == {filled: {0: 2, 1: 0}}, "five seconds before"
    assert resumed(None, {filled: {7: 1}}) == {filled: {0: 2, 1: 0}}, "it had more partitions"
    assert resumed(None, {"other": {0: 1}}) == {filled: {0: 2, 1: 0}}, "a topic that the id does not have"


@pytest.mark.parametrize("start", ["", "soon", "-5", "9" * 25])
def test_what_is_no_time_is_rejected(cluster: Cluster, filled: str, start: str) -> None:
    with pytest.raises(HeadraceError):
        found(cluster, lambda starts, _: starts.at([filled], start))
