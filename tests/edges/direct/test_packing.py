from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.edges.direct.packet import HEADER_BYTES, SPAN_MAX, Packet, decode_packet, encode_event
from headrace.edges.direct.packing import PackingBounds, pack
from tests.edges.direct.conftest import STREAM, event, numbers

BOUNDS = PackingBounds(packet_bytes=200, packet_bytes_max=400)


def spans(packets: list[Packet]) -> list[tuple[int, int]]:
    return [(each.first, each.next) for each in packets]


@given(
    st.integers(0, 2**40),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 500)), max_size=30),
)
def test_packets_have_all_events_in_order_and_account_for_all_numbers_but_those_too_large(
    first: int, steps: list[tuple[int, int]]
) -> None:
    number, events = first, []
    for skipped, size in steps:
        number += skipped
        events.append(replace(event(number), value=b"." * size))
        number += 1
    packed = pack(STREAM, first, events, 5, BOUNDS)
    packets = [decode_packet(each) for each in packed.packets]

    fitting = [each for each in events if HEADER_BYTES + len(encode_event(each, each.number)) <= 400]
    assert [each for sent in packets for each in sent.events] == fitting
    assert packed.too_large == len(events) - len(fitting)
    assert packed.next == number
    assert all(len(each) <= 400 for each in packed.packets)
    assert all(len(data) <= 200 or len(decode_packet(data).events) == 1 for data in packed.packets), (
        "only a single event exceeds the bound"
    )
    if len(fitting) == len(events):
        ends = [first, *(each.next for each in packets)]
        assert [each.first for each in packets] == ends[:-1]


def test_receivers_see_a_gap_where_an_event_is_too_large() -> None:
    events = [event(1), replace(event(2), value=b"." * 1000), event(3)]
    packed = pack(STREAM, 1, events, 5, BOUNDS)
    assert spans([decode_packet(each) for each in packed.packets]) == [(1, 2), (3, 4)]


def test_hole_that_is_wider_than_a_packet_may_account_for_has_packets_of_its_own() -> None:
    far = 2 * SPAN_MAX + 10
    packets = [decode_packet(each) for each in pack(STREAM, 0, [event(0), event(far)], 5, BOUNDS).packets]
    assert spans(packets) == [
        (0, 1),
        (1, SPAN_MAX + 1),
        (SPAN_MAX + 1, 2 * SPAN_MAX + 1),
        (2 * SPAN_MAX + 1, far + 1),
    ]
    assert [number for each in packets for number in numbers(each.events)] == [0, far]
