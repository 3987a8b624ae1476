"""Reading topics: time passes with the records until all are read, and positions are corrected."""

from __future__ import annotations

from headrace.alerts.streams import Corrected, Read, Streams
from headrace.kafka.cluster import Partition
from tests.alerts.conftest import Lab, wait_until

NOW_MS = 1 << 45


def test_time_is_that_of_the_records_until_all_are_read(lab: Lab) -> None:
    lab.topic()
    for at_ms in (1_000, 3_000, 2_000):
        lab.write({"at": at_ms}, at_ms=at_ms)
    streams = Streams(lab.cluster)
    try:
        streams.assign({Partition("logs", 0): 1})
        assert streams.time_ms("logs", NOW_MS) == 0
        reads: list[Read] = []
        while not reads:
            reads = streams.read(1, 1)
        assert [(each.offset, each.at_ms) for each in reads] == [(1, 3_000)]
        assert streams.time_ms("logs", NOW_MS) == 3_000

        def is_at_end() -> bool:
            reads.extend(streams.read(10, 0.1))
            return streams.time_ms("logs", NOW_MS) == NOW_MS

        wait_until(is_at_end)
        assert [each.offset for each in reads] == [1, 2]
        assert streams.time_ms("another", NOW_MS) == NOW_MS
    finally:
        streams.close()


def test_positions_without_records_are_corrected(lab: Lab) -> None:
    lab.topic(partitions=3)
    found = lab.cluster.partitions("logs")
    for _ in range(4):
        lab._producer.produce("logs", b"{}", partition=0)
    assert lab._producer.flush(60) == 0
    lab.cluster.delete_records({found[0]: 3})
    streams = Streams(lab.cluster)
    try:
        assert streams.partitions(["logs", "missing"]) == {"logs": found}
        assert streams.correct({found[0]: 1, found[1]: 0, found[2]: 7}) == {
            found[0]: Corrected(position=3, missed=2),
            found[2]: Corrected(position=0, missed=0),
        }
    finally:
        streams.close()
