from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.direct.gaps import Gap, Position, Ready, ReorderBounds, accept, end, expire
from headrace.edges.direct.packet import Packet
from tests.edges.direct.conftest import heartbeat, numbers, packet

BOUNDS = ReorderBounds(packets=4, wait_ms=100, leap=1_000)


class Run:
    """A stream that is fed packet by packet."""

    def __init__(self, expected: int = 0, bounds: ReorderBounds = BOUNDS) -> None:
        self.position = Position(expected=expected)
        self.bounds = bounds
        self.ready: list[Ready] = []
        self.duplicates = self.late = self.reordered = 0

    def feed(self, *packets: Packet, now_ms: int = 0) -> Run:
        for each in packets:
            step = accept(self.position, each, now_ms, self.bounds)
            self.duplicates += step.duplicates
            self.late += step.late
            self.reordered += step.reordered
            self._take(step.position, step.ready)
        return self

    def wait(self, now_ms: int) -> Run:
        step = expire(self.position, now_ms, self.bounds)
        self._take(step.position, step.ready)
        return self

    def end(self) -> Run:
        step = end(self.position, 0, self.bounds)
        self.duplicates += step.duplicates
        self._take(step.position, step.ready)
        return self

    def _take(self, position: Position, ready: tuple[Ready, ...]) -> None:
        self.position = position
        self.ready += ready

    @property
    def events(self) -> list[int]:
        return [number for each in self.ready if isinstance(each, Packet) for number in numbers(each.events)]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        return [(each.first, each.next) for each in self.ready if isinstance(each, Gap)]


def test_packets_in_order_are_ready_at_once() -> None:
    run = Run().feed(packet(0, 3), packet(3), packet(4, 6))
    assert (run.events, run.gaps, run.position.expected) == ([0, 1, 2, 3, 4, 5], [], 6)


def test_packet_that_comes_twice_is_ready_once() -> None:
    run = Run().feed(packet(0, 3), packet(0, 3), packet(2, 5))
    assert (run.events, run.duplicates) == ([0, 1, 2, 3, 4], 4)


def test_packets_out_of_order_are_ready_in_order() -> None:
    run = Run().feed(packet(0), packet(2), packet(3), packet(1), packet(4))
    assert (run.events, run.gaps, run.reordered) == ([0, 1, 2, 3, 4], [], 1)


def test_gap_is_declared_after_the_wait_and_not_before() -> None:
    run = Run().feed(packet(0), packet(3), now_ms=0).wait(99)
    assert (run.events, run.gaps) == ([0], [])
    run.wait(100)
    assert (run.events, run.gaps) == ([0, 3], [(1, 3)])


def test_gap_is_declared_when_too_many_packets_are_held() -> None:
    run = Run().feed(packet(0), *(packet(number) for number in (3, 4, 5, 6)))
    assert run.gaps == []
    run.feed(packet(7))
    assert (run.events, run.gaps) == ([0, 3, 4, 5, 6, 7], [(1, 3)])


def test_loss_at_the_end_is_found_by_a_heartbeat() -> None:
    run = Run().feed(packet(0), heartbeat(1), heartbeat(4), heartbeat(4)).wait(100)
    assert (run.events, run.gaps, run.position.expected) == ([0], [(1, 4)], 4)
    assert run.duplicates == 0


def test_packet_after_its_gap_is_late_and_one_that_was_ready_is_a_duplicate() -> None:
    run = Run().feed(packet(0), packet(3)).wait(100).feed(packet(1, 3), packet(0))
    assert (run.events, run.late, run.duplicates) == ([0, 3], 2, 1)


def test_single_forged_number_far_ahead_changes_nothing() -> None:
    run = Run().feed(packet(0), packet(10**12), packet(1), packet(2)).wait(10_000).end()
    assert (run.events, run.gaps) == ([0, 1, 2], [])


def test_numbers_far_ahead_are_a_gap_when_they_continue_and_none_of_their_packets_is_lost() -> None:
    run = Run().feed(packet(0), packet(5_000), packet(5_001)).wait(100)
    assert (run.events, run.gaps) == ([0, 5_000, 5_001], [(1, 5_000)])


def test_publisher_that_starts_again_from_its_committed_number_repeats_without_a_gap() -> None:
    sent = [packet(number, number + 2) for number in range(0, 10, 2)]
    # Packed in another way after the restart.
    again = [packet(4, 7), packet(7, 12)]
    run = Run().feed(*sent, *again)
    assert (run.events, run.gaps, run.duplicates) == ([*range(12)], [], 6)


@given(st.data())
def test_every_number_is_ready_once_in_order_or_in_one_gap(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=25))
    sent, at = [], 0
    for size in sizes:
        sent.append(packet(at, at + size))
        at += size
    kept = [each for each in sent if data.draw(st.integers(0, 4))]
    arriving = data.draw(st.permutations([*kept, *data.draw(st.lists(st.sampled_from(sent), max_size=5))]))
    run = Run(bounds=ReorderBounds(packets=data.draw(st.integers(1, 30)), wait_ms=100))
    run.feed(*arriving, heartbeat(at)).end()

    # Each number exactly once, as an event or in a gap, and in order.
    accounted: list[int] = []
    for each in run.ready:
        accounted += range(*each) if isinstance(each, Gap) else numbers(each.events)
    assert accounted == [*range(at)]
    arrived = sum(len(each.events) for each in arriving)
    assert arrived == len(run.events) + run.duplicates + run.late


@given(st.data())
def test_order_within_the_window_loses_nothing(data: st.DataObject) -> None:
    window = data.draw(st.integers(1, 6))
    count = data.draw(st.integers(1, 40))
    sent = [packet(number) for number in range(count)]
    blocks = [sent[at : at + window] for at in range(0, count, window)]
    arriving = [each for block in blocks for each in data.draw(st.permutations(block))]
    run = Run(bounds=ReorderBounds(packets=window, wait_ms=100)).feed(*arriving)
    assert (run.events, run.gaps, run.duplicates) == ([*range(count)], [], 0)


def test_holes_of_a_log_that_packets_account_for_are_no_gaps() -> None:
    # The marker of a transaction has number 2.
    with_hole = Packet(stream=7, first=2, next=4, events=packet(3).events)
    run = Run().feed(packet(0, 2), with_hole, packet(4))
    assert (run.events, run.gaps) == ([0, 1, 3, 4], [])


@given(
    st.lists(
        st.tuples(st.integers(0, 30) | st.integers(0, 2**62), st.integers(0, 4), st.integers(0, 300)),
        max_size=40,
    )
)
def test_what_is_ready_is_contiguous_whatever_arrives(arriving: list[tuple[int, int, int]]) -> None:
    run = Run(bounds=ReorderBounds(packets=3, wait_ms=100, leap=50))
    now_ms = 0
    for first, span, wait_ms in arriving:
        now_ms += wait_ms
        run.feed(packet(first, first + span), now_ms=now_ms).wait(now_ms)
        assert len(run.position.held) <= 3
    run.end()
    at = 0
    for each in run.ready:
        assert each.first == at <= each.next
        at = each.next
    assert at == run.position.expected
    assert run.events == sorted(set(run.events))
