"""Which message is next: in order within a key, and none before its time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.lanes import Lanes
from headrace.webhooks.outgoing.message import Outgoing


def message(offset: int, key: bytes | None = None, partition: int = 0) -> Outgoing:
    return Outgoing(
        message_id=str(offset),
        origin=MessageId("orders", partition, offset),
        timestamp_ms=0,
        key=key,
        value=b"",
        headers=(),
    )


def test_failed_message_holds_back_its_key_only() -> None:
    lanes = Lanes(is_ordered=True)
    for offset, key in enumerate([b"a", b"a", b"b", None]):
        lanes.add(message(offset, key))
    first = lanes.take(0.0)
    assert first is not None
    assert first.origin.offset == 0
    lanes.retry(first, due_s=10.0)

    others = [lanes.take(1.0), lanes.take(1.0), lanes.take(1.0)]
    assert [each.origin.offset for each in others if each is not None] == [2, 3]
    again = lanes.take(10.0)
    assert again is first
    lanes.leave(first)
    behind = lanes.take(10.0)
    assert behind is not None
    assert behind.origin.offset == 1


def test_unordered_messages_of_a_key_go_at_the_same_time() -> None:
    lanes = Lanes(is_ordered=False)
    lanes.add(message(0, b"a"))
    lanes.add(message(1, b"a"))
    assert lanes.take(0.0) is not None
    assert lanes.take(0.0) is not None


def test_same_key_in_another_partition_is_another_lane() -> None:
    lanes = Lanes(is_ordered=True)
    lanes.add(message(0, b"a", partition=0))
    lanes.add(message(0, b"a", partition=1))
    assert lanes.take(0.0) is not None
    assert lanes.take(0.0) is not None


def test_hastened_messages_go_at_the_new_time_at_the_latest() -> None:
    lanes = Lanes(is_ordered=False)
    early, late = message(0), message(1)
    for each, due_s in ((early, 2.0), (late, 3_600.0)):
        lanes.retry(each, due_s)
    lanes.hasten(lambda: 5.0)
    assert lanes.take(2.0) is early
    assert lanes.take(4.9) is None
    assert lanes.take(5.0) is late


def test_messages_of_a_lost_partition_are_not_sent() -> None:
    lanes = Lanes(is_ordered=True)
    lost = [message(offset, b"a", partition=1) for offset in range(3)]
    kept = message(0, b"a", partition=0)
    for each in (*lost, kept):
        lanes.add(each)
    in_flight = lanes.take(0.0)
    assert in_flight is lost[0]
    for each in lost:
        each.is_forgotten = True
    lanes.forget("orders", 1)
    lanes.retry(lost[0], due_s=0.0)
    lanes.leave(lost[0])
    assert lanes.take(1.0) is kept
    assert lanes.take(1.0) is None


@given(
    st.lists(st.sampled_from([b"a", b"b", b"c", None]), max_size=30),
    st.lists(st.booleans(), max_size=200),
)
def test_each_message_leaves_once_and_those_of_a_key_in_order(
    keys: list[bytes | None], outcomes: list[bool]
) -> None:
    lanes = Lanes(is_ordered=True)
    for offset, key in enumerate(keys):
        lanes.add(message(offset, key))
    left: dict[bytes | None, list[int]] = defaultdict(list)
    answers, now_s = iter(outcomes), 0.0
    while sum(map(len, left.values())) < len(keys):
        found = lanes.take(now_s)
        if found is None:
            now_s += 1.0
            continue
        if next(answers, True):
            left[found.key].append(found.origin.offset)
            lanes.leave(found)
        else:
            lanes.retry(found, now_s + 1.0)
    assert lanes.take(now_s + 10) is None
    for key, offsets in left.items():
        expected = [offset for offset, each in enumerate(keys) if each == key]
        assert sorted(offsets) == expected
        assert key is None or offsets == expected
