from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.edges.direct.carried import Carried, carried_by, carrying, without_feed
from tests.edges.direct.conftest import event

NUMBER = st.integers(0, 2**63)


@given(
    st.builds(
        Carried, stream=st.integers(0, 2**64 - 1), number=NUMBER, first=NUMBER, missing=NUMBER, dropped=NUMBER
    )
)
def test_record_carries_the_number_and_the_loss_of_its_event(carried: Carried) -> None:
    sent = replace(event(1), key=b"k", headers=(("own", b"1"), ("feed.number", b"99")))
    record = carrying("topic", sent, carried)
    assert carried_by(record.headers) == carried
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"1", sent.timestamp_ms)
    assert without_feed(record.headers) == (("own", b"1"),)


@given(
    st.lists(
        st.tuples(st.sampled_from(["feed.stream", "feed.number", "feed.first", "x"]), st.none() | st.binary())
    )
)
def test_records_of_others_carry_nothing(headers: list[tuple[str, bytes | None]]) -> None:
    found = carried_by(headers)
    assert found is None or {"feed.stream", "feed.number"} <= {name for name, _ in headers}


def test_event_without_a_loss_has_two_headers_only() -> None:
    record = carrying("topic", event(5), Carried(stream=255, number=5, first=5))
    assert record.headers == (("feed.stream", b"00000000000000ff"), ("feed.number", b"5"))
