from __future__ import annotations

from headrace.kafka.position import Position
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import table_store
from headrace.views.reading.fences import FENCES, position_in


def test_fence_is_where_the_sink_writes_it() -> None:
    assert FENCES == table_store.FENCES


def test_position_is_the_end_of_all_topics_of_the_batch() -> None:
    fence = Fence(
        job="view.users.1",
        checkpoint="c",
        batch_id=3,
        ends=('{"users":{"0":5,"1":7}}', '{"orders":{"0":2}}', "-", "1763447400000"),
    )
    assert position_in(fence.to_json()) == Position({"users": {0: 5, 1: 7}, "orders": {0: 2}})
