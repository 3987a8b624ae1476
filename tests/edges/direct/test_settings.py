from __future__ import annotations

from headrace.edges.direct.packet import HEADER_BYTES, SPAN_MAX
from headrace.edges.direct.settings import BOUNDS, DATAGRAM_BYTES_MAX, MESSAGE_BYTES_MAX


def test_bounds_fit_together() -> None:
    # One packet can't leap further than a packet accounts for, and the largest datagram has an event.
    assert BOUNDS.leap <= SPAN_MAX
    assert HEADER_BYTES < DATAGRAM_BYTES_MAX < MESSAGE_BYTES_MAX
